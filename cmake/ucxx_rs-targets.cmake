# Defines the targets. An installed package uses it by ucxx_rs-config.cmake, and so does the build
# of this project, which another project may contain.
#
#   ucxx_rs::shared    libucxx_rs.so
#   ucxx_rs::static    libucxx_rs.a. UCX itself is linked as a shared library, because a static UCX
#                      has no transports. Defined only if UCX is found, by pkg-config or under
#                      CMAKE_PREFIX_PATH.
#   ucxx_rs::ucxx_rs   the shared library, or the archive if there is no shared one

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(UCXX_RS_PC_UCX QUIET "ucx>=1.13")
endif()
find_library(UCXX_RS_UCP_LIBRARY NAMES ucp libucp.so.0 HINTS ${UCXX_RS_PC_UCX_LIBDIR} ${UCXX_RS_PC_UCX_LIBRARY_DIRS})
mark_as_advanced(UCXX_RS_UCP_LIBRARY)

# ARGN is GLOBAL or empty, as for add_library. An empty name leaves that library out.
function(ucxx_rs_add_targets shared soname archive includedir)
  if(shared AND NOT TARGET ucxx_rs::shared)
    add_library(ucxx_rs::shared SHARED IMPORTED ${ARGN})
    set_target_properties(ucxx_rs::shared PROPERTIES
      IMPORTED_LOCATION "${shared}"
      IMPORTED_SONAME "${soname}"
      INTERFACE_INCLUDE_DIRECTORIES "${includedir}")
    # If UCX is not on the linker's path, the linker needs the location of this dependency.
    if(UCXX_RS_UCP_LIBRARY)
      set_target_properties(ucxx_rs::shared PROPERTIES IMPORTED_LINK_DEPENDENT_LIBRARIES "${UCXX_RS_UCP_LIBRARY}")
    endif()
  endif()
  if(archive AND UCXX_RS_UCP_LIBRARY AND NOT TARGET ucxx_rs::static)
    add_library(ucxx_rs::static STATIC IMPORTED ${ARGN})
    set_target_properties(ucxx_rs::static PROPERTIES
      IMPORTED_LOCATION "${archive}"
      IMPORTED_LINK_INTERFACE_LANGUAGES C
      INTERFACE_INCLUDE_DIRECTORIES "${includedir}"
      INTERFACE_LINK_LIBRARIES "${UCXX_RS_UCP_LIBRARY};gcc_s;util;rt;pthread;m;dl")
  endif()
  if(NOT TARGET ucxx_rs::ucxx_rs)
    foreach(kind IN ITEMS shared static)
      if(TARGET ucxx_rs::${kind})
        add_library(ucxx_rs::ucxx_rs INTERFACE IMPORTED ${ARGN})
        set_target_properties(ucxx_rs::ucxx_rs PROPERTIES INTERFACE_LINK_LIBRARIES ucxx_rs::${kind})
        break()
      endif()
    endforeach()
  endif()
endfunction()
