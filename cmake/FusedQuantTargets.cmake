# SPDX-License-Identifier: BSD-3-Clause
#
# Compile and link settings shared by every target of this project.

# fused_quant_target_defaults(<target>): warnings as errors, no exceptions, no RTTI, sanitizers.
#
# For library code. Tests, which use GoogleTest, call fused_quant_test_defaults.
function(fused_quant_target_defaults target)
  fused_quant_test_defaults(${target})
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics)
endfunction()

# fused_quant_test_defaults(<target>): warnings as errors and sanitizers.
function(fused_quant_test_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_17)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Werror)
  fused_quant_sanitize(${target})
endfunction()

# fused_quant_sanitize(<target>): FUSED_QUANT_SANITIZE, with every finding fatal so that a test run
# cannot pass over one. Not vptr: library code has no RTTI, so its objects look wrong to that check.
function(fused_quant_sanitize target)
  if(FUSED_QUANT_SANITIZE)
    set(_flags -fsanitize=${FUSED_QUANT_SANITIZE} -fno-sanitize-recover=all
               -fno-sanitize=vptr -fno-omit-frame-pointer)
    target_compile_options(${target} PRIVATE ${_flags} -g)
    target_link_options(${target} PRIVATE ${_flags})
  endif()
endfunction()

# fused_quant_export_only(<target> <pattern>): the shared library <target> exports C symbols that
# match <pattern> and nothing else.
#
# Hidden visibility is not enough: namespace std has default visibility, so instances of its
# templates would be exported as weak symbols and could be taken by another library of the process.
function(fused_quant_export_only target pattern)
  set(_script "${CMAKE_CURRENT_BINARY_DIR}/${target}.map")
  file(CONFIGURE OUTPUT "${_script}" CONTENT "{ global: ${pattern}; local: *; };\n")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${_script}" "LINKER:-z,defs")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${_script}")
endfunction()
