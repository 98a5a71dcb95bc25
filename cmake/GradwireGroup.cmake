# SPDX-License-Identifier: Apache-2.0
#
# libgradwire-group: workers on several machines that find each other through a meeting
# and encrypt what they send. It sees installed headers only.
find_package(OpenSSL 3 QUIET)
if(NOT OPENSSL_FOUND)
  gradwire_missing("groups (workers on several machines without MPI)" "OpenSSL 3" "libssl-dev")
  return()
endif()

file(GLOB group_sources CONFIGURE_DEPENDS group/*.c)
configure_file(group/gradwire_group.h include/gradwire_group.h COPYONLY)
add_library(gradwire_group_objects OBJECT ${group_sources})
gradwire_compile(gradwire_group_objects)
target_include_directories(gradwire_group_objects PRIVATE include group)
target_link_libraries(gradwire_group_objects PRIVATE OpenSSL::SSL OpenSSL::Crypto)
set_target_properties(gradwire_group_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

foreach(kind static shared)
  string(TOUPPER ${kind} KIND)
  add_library(gradwire_group_${kind} ${KIND} $<TARGET_OBJECTS:gradwire_group_objects>)
  set_target_properties(gradwire_group_${kind} PROPERTIES
    OUTPUT_NAME gradwire-group LINKER_LANGUAGE C EXPORT_NAME group_${kind})
  target_include_directories(gradwire_group_${kind} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/group>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(gradwire_group_${kind} PUBLIC
    gradwire_${kind} OpenSSL::SSL OpenSSL::Crypto Threads::Threads)
  gradwire_link_options(gradwire_group_${kind})
  add_library(gradwire::group_${kind} ALIAS gradwire_group_${kind})
endforeach()
set_target_properties(gradwire_group_shared PROPERTIES EXPORT_NAME group
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
add_library(gradwire::group ALIAS gradwire_group_shared)
add_dependencies(product gradwire_group_static gradwire_group_shared)
