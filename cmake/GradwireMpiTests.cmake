# SPDX-License-Identifier: Apache-2.0
#
# Tests that run under mpirun: tests/mpi/*.c, each with the ranks it is given here.
# They start more ranks than there are cores, so they do not run beside others.

# Open MPI refuses root and crowded machines unless told; MPICH does not know these
# variables. Shared memory by copies between processes is often forbidden in
# containers, and then costs time before it is given up.
set(mpi_environment
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
  OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none)

function(gradwire_mpi_executable name folder)
  gradwire_executable(${name} ${folder} ${ARGN})
  target_link_libraries(${name} PRIVATE gradwire_mpi_static)
endfunction()

# gradwire_mpi_test(NAME RANKS ENVIRONMENT command...)
function(gradwire_mpi_test name ranks environment)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${ARGN})
  gradwire_test_properties(${name} mpi)
  set_tests_properties(${name} PROPERTIES RUN_SERIAL ON
    ENVIRONMENT "${mpi_environment};${environment}")
endfunction()

if(TARGET test_support)
  gradwire_mpi_executable(mpi_conformance tests/mpi tests/mpi/mpi_conformance.c)
  target_link_libraries(mpi_conformance PRIVATE test_support ${CMOCKA_LIBRARY})
  target_include_directories(mpi_conformance PRIVATE src tests/support)
  target_include_directories(mpi_conformance SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
  gradwire_mpi_test(mpi_conformance 9 "" $<TARGET_FILE:mpi_conformance>)
  # The same in parts of 100 bytes, as messages of gigabytes are sent.
  gradwire_mpi_test(mpi_conformance_parts 4 "GRADWIRE_MPI_PART=100"
    $<TARGET_FILE:mpi_conformance> bits)
  gradwire_mpi_test(mpi_conformance_native 4 "" $<TARGET_FILE:mpi_conformance> native)
endif()

gradwire_mpi_executable(mpi_large tests/mpi tests/mpi/mpi_large.c)

# Examples link the shared library: they show that it exports what they need.
gradwire_executable(example_average_mpi examples examples/average_mpi.c)
target_link_libraries(example_average_mpi PRIVATE gradwire_mpi_shared)
gradwire_mpi_test(example_average_mpi 3 "" $<TARGET_FILE:example_average_mpi>)

# The command under mpirun.
if(TEST test_mpi_run)
  set_property(TEST test_mpi_run APPEND PROPERTY ENVIRONMENT ${mpi_environment}
    "MPIEXEC=${MPIEXEC_EXECUTABLE}")
  set_property(TEST test_mpi_run APPEND PROPERTY LABELS mpi)
endif()
