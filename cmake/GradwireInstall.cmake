# SPDX-License-Identifier: Apache-2.0
#
# Installation: libraries, headers, the command, pkg-config and CMake packages, licences.
# GradwirePages.cmake and GradwireSim.cmake install what they make.
# Neither package holds an absolute path, so `cmake --install --prefix` and moved
# trees work.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gradwire)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS gradwire_static gradwire_shared EXPORT gradwire)
install(DIRECTORY include/ TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
if(TARGET gradwire_cli)
  install(TARGETS gradwire_cli)
endif()

# The page of reports holds a library for charts, whose licence goes with it.
install(FILES LICENSE TYPE DOC)
if(GRADWIRE_PAGE_LICENSE)
  install(FILES ${GRADWIRE_PAGE_LICENSE} TYPE DOC RENAME LICENSE.uPlot)
endif()

file(RELATIVE_PATH pkgconfig_to_prefix /${pkgconfig_dir} /)
if(TARGET gradwire_mpi_static)
  install(TARGETS gradwire_mpi_static gradwire_mpi_shared EXPORT gradwire_mpi)
  install(FILES mpi/gradwire_mpi.h TYPE INCLUDE)
  install(EXPORT gradwire_mpi NAMESPACE gradwire:: FILE gradwireMpiTargets.cmake
    DESTINATION ${package_dir})
  configure_file(cmake/gradwire-mpi.pc.in gradwire-mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/gradwire-mpi.pc DESTINATION ${pkgconfig_dir})
endif()
if(TARGET gradwire_group_static)
  install(TARGETS gradwire_group_static gradwire_group_shared EXPORT gradwire_group)
  install(FILES group/gradwire_group.h TYPE INCLUDE)
  install(EXPORT gradwire_group NAMESPACE gradwire:: FILE gradwireGroupTargets.cmake
    DESTINATION ${package_dir})
  configure_file(cmake/gradwire-group.pc.in gradwire-group.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/gradwire-group.pc DESTINATION ${pkgconfig_dir})
endif()
configure_file(cmake/gradwire.pc.in gradwire.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gradwire.pc DESTINATION ${pkgconfig_dir})

configure_package_config_file(cmake/gradwireConfig.cmake.in gradwireConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(gradwireConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT gradwire NAMESPACE gradwire:: FILE gradwireTargets.cmake
  DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/gradwireConfig.cmake
  ${PROJECT_BINARY_DIR}/gradwireConfigVersion.cmake DESTINATION ${package_dir})
