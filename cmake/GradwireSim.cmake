# SPDX-License-Identifier: Apache-2.0
#
# The rank program (sim/), twice:
#
#   gradwire-exchange     over a real MPI, for clusters
#   gradwire-rank.so      over SimGrid's simulated MPI, for `gradwire simulate`
#
# The second is what smpicc would make of the library, mpi/ and sim/: SimGrid's header
# in front of every file, which replaces the clock, sleeping and memory, and a shared
# object with a main() that smpirun loads.
file(GLOB sim_sources CONFIGURE_DEPENDS sim/*.c)
file(GLOB mpi_sources CONFIGURE_DEPENDS mpi/*.c)

if(TARGET gradwire_mpi_static)
  gradwire_executable(gradwire_exchange . ${sim_sources})
  set_target_properties(gradwire_exchange PROPERTIES OUTPUT_NAME gradwire-exchange)
  target_include_directories(gradwire_exchange PRIVATE src)
  target_link_libraries(gradwire_exchange PRIVATE gradwire_mpi_static gradwire_static m)
  add_dependencies(product gradwire_exchange)
  if(PROJECT_IS_TOP_LEVEL)
    install(TARGETS gradwire_exchange)
    install(FILES sim/gradwire-exchange.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endif()
endif()

find_path(SIMGRID_INCLUDE_DIR smpi/smpi_helpers.h)
find_library(SIMGRID_LIBRARY simgrid)
mark_as_advanced(SIMGRID_INCLUDE_DIR SIMGRID_LIBRARY)

if(NOT SIMGRID_INCLUDE_DIR OR NOT SIMGRID_LIBRARY)
  gradwire_missing("gradwire simulate" SimGrid libsimgrid-dev)
elseif(mpi_sources AND NOT GRADWIRE_SANITIZE AND NOT GRADWIRE_FUZZ)
  # Sanitizers do not know the stacks that SimGrid gives its ranks.
  add_library(gradwire_rank MODULE ${sources} ${mpi_sources} ${sim_sources})
  gradwire_compile(gradwire_rank)
  # The library's memory can be shared between ranks (sim/fold.h).
  target_compile_definitions(gradwire_rank PRIVATE GRADWIRE_SMPI
    aligned_alloc=gws_aligned_alloc)
  target_compile_options(gradwire_rank PRIVATE -include smpi/smpi_helpers.h
    )
  target_include_directories(gradwire_rank PRIVATE include src mpi sim)
  target_include_directories(gradwire_rank SYSTEM PRIVATE
    ${SIMGRID_INCLUDE_DIR} ${SIMGRID_INCLUDE_DIR}/smpi)
  target_link_libraries(gradwire_rank PRIVATE ${SIMGRID_LIBRARY} Threads::Threads m)
  set_target_properties(gradwire_rank PROPERTIES PREFIX "" OUTPUT_NAME gradwire-rank
    SUFFIX .so LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  add_dependencies(product gradwire_rank)
  if(PROJECT_IS_TOP_LEVEL)
    install(TARGETS gradwire_rank DESTINATION ${CMAKE_INSTALL_LIBDIR}/gradwire)
  endif()
endif()
