# SPDX-License-Identifier: BSD-3-Clause
#
# The build's Python packages (executorch, flatc), found through the interpreter that drives the
# build. A PATH or CMAKE_PREFIX_PATH search would do wrong twice: several packages install a `flatc`
# script of another version, and an isolated build sees the outer environment's packages first.

set(Python3_FIND_VIRTUALENV FIRST)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# fused_quant_python_package(<name> <variable>): folder of an importable Python package.
function(fused_quant_python_package name variable)
  execute_process(
    COMMAND
      "${Python3_EXECUTABLE}" -c
      "import importlib.util as u; s = u.find_spec('${name}'); print(list(s.submodule_search_locations)[0] if s else '')"
    OUTPUT_VARIABLE _folder
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(NOT IS_DIRECTORY "${_folder}")
    message(
      FATAL_ERROR
        "fused_quant: the Python package '${name}' is not installed for ${Python3_EXECUTABLE}. "
        "Install the packages listed under [build-system] in pyproject.toml.")
  endif()
  set(${variable} "${_folder}" PARENT_SCOPE)
endfunction()
