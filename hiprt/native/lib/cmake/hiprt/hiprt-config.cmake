# find_package(hiprt) gives the target hiprt::hiprt. The folder of this file says where the package is, which may be moved.
get_filename_component(hiprt_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hiprt::hiprt)
  add_library(hiprt::hiprt SHARED IMPORTED)
  set_target_properties(hiprt::hiprt PROPERTIES
    IMPORTED_LOCATION "${hiprt_prefix}/lib/libhiprt.so"
    IMPORTED_SONAME "libhiprt.so"
    INTERFACE_INCLUDE_DIRECTORIES "${hiprt_prefix}/include")
endif()
