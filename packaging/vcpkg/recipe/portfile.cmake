# vcpkg has neither Rust nor UCX. The port uses the cargo in PATH, and the UCX that pkg-config
# finds.
vcpkg_download_distfile(ARCHIVE
  URLS "@SOURCE_URL@"
  FILENAME "ucxx_rs-${VERSION}.tar.gz"
  SHA512 @SOURCE_SHA512@)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

find_program(CARGO cargo PATHS "$ENV{HOME}/.cargo/bin")
find_program(PKGCONFIG pkg-config)
if(NOT CARGO OR NOT PKGCONFIG)
  message(FATAL_ERROR "ucxx-rs needs Rust 1.88 or newer (cargo), and pkg-config")
endif()
execute_process(COMMAND "${PKGCONFIG}" --exists "ucx >= 1.13" RESULT_VARIABLE missing)
if(missing)
  message(FATAL_ERROR "ucxx-rs needs UCX 1.13 or newer: libucx-dev on Debian, ucx-devel on Fedora")
endif()

# Cargo always builds the optimised library, and it serves debug builds as well.
set(VCPKG_BUILD_TYPE release)
set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DUCXX_RS_TOOLS=OFF)
vcpkg_cmake_install()

# One of the two libraries, as the triplet says.
set(lib "${CURRENT_PACKAGES_DIR}/lib")
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  file(GLOB unwanted "${lib}/libucxx_rs.so*" "${lib}/pkgconfig/ucxx_rs.pc")
else()
  file(GLOB unwanted "${lib}/libucxx_rs.a" "${lib}/pkgconfig/ucxx_rs-static.pc")
endif()
file(REMOVE ${unwanted})

vcpkg_cmake_config_fixup(PACKAGE_NAME ucxx_rs CONFIG_PATH lib/cmake/ucxx_rs)
# That has moved it from lib/cmake/ucxx_rs to share/ucxx_rs.
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/share/ucxx_rs/ucxx_rs-config.cmake"
  "{_ucxx_rs_here}/../../.." "{_ucxx_rs_here}/../..")
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc" "${CURRENT_PACKAGES_DIR}/share/man")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
