# The Python package for a distribution, whose library is a package of its own. CMakeLists.txt
# includes this with -DUCXX_RS_SYSTEM_LIBRARY=FILE.
set(UCXX_RS_PYTHON_DIR "" CACHE STRING "Where that Python finds packages, below the prefix or absolute")
if(NOT UCXX_RS_PYTHON_DIR)
  message(FATAL_ERROR "UCXX_RS_PYTHON_DIR is needed with UCXX_RS_SYSTEM_LIBRARY")
endif()

ucxx_rs_add_module("${_root}/include" "${UCXX_RS_SYSTEM_LIBRARY}" "${UCXX_RS_SYSTEM_LIBRARY}")
# Nothing of the folder of the build: the loader finds the library.
set_target_properties(_native PROPERTIES SKIP_BUILD_RPATH ON)
set(_metadata "${CMAKE_CURRENT_BINARY_DIR}/ucxx_rs-${PROJECT_VERSION}.dist-info")
add_custom_command(OUTPUT "${_metadata}"
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/metadata.py"
    "${_root}/pyproject.toml" "${PROJECT_VERSION}" "${_metadata}"
  DEPENDS metadata.py "${_root}/pyproject.toml"
  VERBATIM)
add_custom_target(ucxx_rs_metadata ALL DEPENDS "${_metadata}")

install(TARGETS _native DESTINATION "${UCXX_RS_PYTHON_DIR}/ucxx_rs")
install(DIRECTORY ucxx_rs "${_metadata}" DESTINATION "${UCXX_RS_PYTHON_DIR}"
  PATTERN __pycache__ EXCLUDE)
