# SPDX-License-Identifier: BSD-3-Clause
#
# What an installed fused_quant folder holds beside its Python modules: the two shared libraries,
# the C++ headers and a CMake package. Paths are relative to that folder, which is the prefix a C++
# project gives to find_package (fused_quant.cmake_prefix_path()).

include(CMakePackageConfigHelpers)

set(_component python)
set(_config_folder lib/cmake/fused_quant)

# With this name both a Python install and `cmake --build` make exactly what is installed.
add_custom_target(fused_quant_package DEPENDS fused_quant_capi fused_quant_schema_py)
install(FILES "${FUSED_QUANT_SCHEMA_PY}" DESTINATION . COMPONENT ${_component})
install(TARGETS fused_quant_capi LIBRARY DESTINATION lib COMPONENT ${_component})
install(DIRECTORY runtime/capi/ DESTINATION include/fused_quant COMPONENT ${_component}
        FILES_MATCHING PATTERN "*.h")

if(TARGET fused_quant_backend)
  add_dependencies(fused_quant_package fused_quant_backend)
  install(
    TARGETS fused_quant_backend
    LIBRARY DESTINATION lib COMPONENT ${_component}
    ARCHIVE DESTINATION lib COMPONENT ${_component})
  install(FILES runtime/executorch/fused_quant_backend.h DESTINATION include/fused_quant
          COMPONENT ${_component})
  configure_package_config_file(
    "${CMAKE_CURRENT_LIST_DIR}/fused_quant-config.cmake.in"
    "${CMAKE_CURRENT_BINARY_DIR}/fused_quant-config.cmake" INSTALL_DESTINATION ${_config_folder})
  write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/fused_quant-config-version.cmake"
                                   COMPATIBILITY SameMinorVersion)
  install(
    FILES "${CMAKE_CURRENT_BINARY_DIR}/fused_quant-config.cmake"
          "${CMAKE_CURRENT_BINARY_DIR}/fused_quant-config-version.cmake"
    DESTINATION ${_config_folder}
    COMPONENT ${_component})
endif()
