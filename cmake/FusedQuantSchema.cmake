# SPDX-License-Identifier: BSD-3-Clause
#
# Code generated from flatbuffer schemas. flatc and the headers come from one package, since
# generated C++ asserts the exact version of the headers it is compiled with.

fused_quant_python_package(flatc FUSED_QUANT_FLATC_PACKAGE)
set(FUSED_QUANT_FLATC "${FUSED_QUANT_FLATC_PACKAGE}/bin/flatc")
set(FUSED_QUANT_FLATBUFFERS_INCLUDE "${FUSED_QUANT_FLATC_PACKAGE}/include")

# fused_quant_flatbuffer_headers(<target> <schema>...): an INTERFACE library that carries
# <stem>_generated.h of each schema, and the flatbuffers headers, on its include path.
#
# The headers are SYSTEM: they are not ours to keep free of warnings.
function(fused_quant_flatbuffer_headers target)
  set(_folder "${CMAKE_BINARY_DIR}/generated/${target}")
  set(_headers)
  foreach(_schema IN LISTS ARGN)
    get_filename_component(_stem "${_schema}" NAME_WE)
    set(_header "${_folder}/${_stem}_generated.h")
    add_custom_command(
      OUTPUT "${_header}"
      COMMAND "${FUSED_QUANT_FLATC}" --cpp -o "${_folder}" "${_schema}"
      DEPENDS "${_schema}" "${FUSED_QUANT_FLATC}"
      VERBATIM)
    list(APPEND _headers "${_header}")
  endforeach()
  add_custom_target(${target}_headers DEPENDS ${_headers})
  add_library(${target} INTERFACE)
  add_dependencies(${target} ${target}_headers)
  target_include_directories(${target} SYSTEM INTERFACE "${_folder}"
                                                        "${FUSED_QUANT_FLATBUFFERS_INCLUDE}")
endfunction()

set(FUSED_QUANT_SCHEMA "${PROJECT_SOURCE_DIR}/schema/fused_quant.fbs")
fused_quant_flatbuffer_headers(fused_quant_schema "${FUSED_QUANT_SCHEMA}")

# The same schema for Python, installed as fused_quant/schema_generated.py.
set(FUSED_QUANT_SCHEMA_PY "${CMAKE_BINARY_DIR}/generated/python/schema_generated.py")
if(NOT CMAKE_CROSSCOMPILING)
  add_custom_command(
    OUTPUT "${FUSED_QUANT_SCHEMA_PY}"
    COMMAND "${FUSED_QUANT_FLATC}" --python --gen-object-api --gen-onefile -o
            "${CMAKE_BINARY_DIR}/generated/python" "${FUSED_QUANT_SCHEMA}"
    COMMAND
      "${CMAKE_COMMAND}" -E rename
      "${CMAKE_BINARY_DIR}/generated/python/fused_quant_generated.py" "${FUSED_QUANT_SCHEMA_PY}"
    DEPENDS "${FUSED_QUANT_SCHEMA}" "${FUSED_QUANT_FLATC}"
    VERBATIM)
  add_custom_target(fused_quant_schema_py ALL DEPENDS "${FUSED_QUANT_SCHEMA_PY}")
endif()
