# Runs the filled portfile without vcpkg: its functions are replaced by short ones here, which do
# the same to the files. build.sh calls it:
#
#   cmake -DPORT_FOLDER=DIR -DOUT=DIR -DVERSION=VERSION -DLINKAGE=dynamic|static -P stand_ins.cmake
cmake_minimum_required(VERSION 3.18)

set(PORT ucxx-rs)
set(VCPKG_LIBRARY_LINKAGE "${LINKAGE}")
set(CURRENT_PACKAGES_DIR "${OUT}/${LINKAGE}")
set(CURRENT_BUILDTREES_DIR "${OUT}/build")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_download_distfile variable)
  cmake_parse_arguments(arg "" "URLS;FILENAME;SHA512" "" ${ARGN})
  file(DOWNLOAD "${arg_URLS}" "${OUT}/${arg_FILENAME}" EXPECTED_HASH "SHA512=${arg_SHA512}")
  set(${variable} "${OUT}/${arg_FILENAME}" PARENT_SCOPE)
endfunction()

function(vcpkg_extract_source_archive variable)
  cmake_parse_arguments(arg "" "ARCHIVE" "" ${ARGN})
  file(REMOVE_RECURSE "${CURRENT_BUILDTREES_DIR}/src")
  file(ARCHIVE_EXTRACT INPUT "${arg_ARCHIVE}" DESTINATION "${CURRENT_BUILDTREES_DIR}/src")
  # vcpkg leaves out the one folder of the archive.
  file(GLOB top "${CURRENT_BUILDTREES_DIR}/src/*")
  set(${variable} "${top}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(arg "" "SOURCE_PATH" "OPTIONS" ${ARGN})
  run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${CURRENT_BUILDTREES_DIR}/rel"
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --build "${CURRENT_BUILDTREES_DIR}/rel")
  run("${CMAKE_COMMAND}" --install "${CURRENT_BUILDTREES_DIR}/rel")
endfunction()

function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(arg "" "PACKAGE_NAME;CONFIG_PATH" "" ${ARGN})
  # The folder may be there already: the package has files of its own in it.
  file(GLOB files "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*")
  file(COPY ${files} DESTINATION "${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME}")
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}")
endfunction()

function(vcpkg_replace_string file old new)
  file(READ "${file}" before)
  string(REPLACE "${old}" "${new}" after "${before}")
  if(after STREQUAL before)
    message(FATAL_ERROR "${file}: '${old}' is not in it")
  endif()
  file(WRITE "${file}" "${after}")
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(arg "" "" "FILE_LIST" ${ARGN})
  file(INSTALL ${arg_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}"
    RENAME copyright)
endfunction()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}")
# The portfile looks for the files beside it.
file(READ "${PORT_FOLDER}/portfile.cmake" portfile)
string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}" "${PORT_FOLDER}" portfile "${portfile}")
file(WRITE "${OUT}/portfile.cmake" "${portfile}")
include("${OUT}/portfile.cmake")
