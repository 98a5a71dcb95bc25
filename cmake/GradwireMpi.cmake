# SPDX-License-Identifier: Apache-2.0
#
# libgradwire-mpi: a gw_comm on an MPI communicator. It sees installed headers only.
# Any MPI-3 will do; another than the first in PATH is chosen as CMake's FindMPI has
# it: -DMPI_C_COMPILER=mpicc.mpich -DMPIEXEC_EXECUTABLE=mpiexec.mpich
find_package(MPI QUIET COMPONENTS C)
if(NOT MPI_C_FOUND)
  gradwire_missing("MPI (workers on several machines)" "an MPI" "libopenmpi-dev or libmpich-dev")
  return()
endif()

file(GLOB mpi_sources CONFIGURE_DEPENDS mpi/*.c)
configure_file(mpi/gradwire_mpi.h include/gradwire_mpi.h COPYONLY)
add_library(gradwire_mpi_objects OBJECT ${mpi_sources})
gradwire_compile(gradwire_mpi_objects)
target_include_directories(gradwire_mpi_objects PRIVATE include mpi)
target_link_libraries(gradwire_mpi_objects PRIVATE MPI::MPI_C)
set_target_properties(gradwire_mpi_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

foreach(kind static shared)
  string(TOUPPER ${kind} KIND)
  add_library(gradwire_mpi_${kind} ${KIND} $<TARGET_OBJECTS:gradwire_mpi_objects>)
  set_target_properties(gradwire_mpi_${kind} PROPERTIES
    OUTPUT_NAME gradwire-mpi LINKER_LANGUAGE C EXPORT_NAME mpi_${kind})
  target_include_directories(gradwire_mpi_${kind} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/mpi>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(gradwire_mpi_${kind} PUBLIC gradwire_${kind} MPI::MPI_C Threads::Threads)
  gradwire_link_options(gradwire_mpi_${kind})
  add_library(gradwire::mpi_${kind} ALIAS gradwire_mpi_${kind})
endforeach()
set_target_properties(gradwire_mpi_shared PROPERTIES EXPORT_NAME mpi
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
add_library(gradwire::mpi ALIAS gradwire_mpi_shared)
add_dependencies(product gradwire_mpi_static gradwire_mpi_shared)
