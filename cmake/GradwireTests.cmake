# SPDX-License-Identifier: Apache-2.0
#
# Everything in the folders of tests/ is found by its name:
#
#   test_*.c          one cmocka executable; sees inside the library
#   test_train_*.c    the same, with the trainer
#   test_command_*.c  the same, with the trainer and the headers of the command
#   test_group_*.c    the same as the first, with libgradwire-group
#   test_*.sh, .py    run the command; GRADWIRE, GRADWIRE_SOURCE and GRADWIRE_BUILD
#                     are set, exit status 77 means "skipped"
#   support*.c        helpers linked into every cmocka executable
#   *_driver.c        used by scripts, like capture_*.c; twin_driver.c is built here, with
#                     the trainer
#
# Labels, for choosing what to run: lib, train, script, python, binding (tests/python,
# tests/torch and python/examples), example, install, mpi, page for what needs a browser, and slow for
# every name that contains "_slow": those are left to be run by name (ctest -L slow).
file(GLOB test_sources CONFIGURE_DEPENDS tests/*/test_*.c)
file(GLOB support_sources CONFIGURE_DEPENDS tests/*/support*.c)
file(GLOB test_scripts CONFIGURE_DEPENDS tests/*/test_*.sh tests/*/test_*.py)
file(GLOB example_sources CONFIGURE_DEPENDS examples/*.c)
# Those that need mpirun are in GradwireMpiTests.cmake.
list(FILTER example_sources EXCLUDE REGEX "_mpi\\.c$")

# Debian's packages belong to Debian's Python, whatever comes first in PATH.
set(GRADWIRE_PYTHON /usr/bin/python3 CACHE FILEPATH "The Python that runs tests")
option(GRADWIRE_PYTHON_EXAMPLES "Run every example of python/examples as a test" OFF)

find_path(CMOCKA_INCLUDE_DIR cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)
mark_as_advanced(CMOCKA_INCLUDE_DIR CMOCKA_LIBRARY)

set(GRADWIRE_LONG_TESTS
  test_mpi_run test_report_page test_torch_twins test_oracle test_format test_install_python test_install_dist
  test_conformance test_segments_promises test_corruption test_python_elastic test_elastic_chaos test_elastic_writer)

function(gradwire_test_properties name)
  set(labels ${ARGN})
  if(name MATCHES "_slow")
    list(APPEND labels slow)
  endif()
  # The longest take a minute or two; sanitizers, or a machine that many share, make that ten
  # times as long.
  set_tests_properties(${name} PROPERTIES
    TIMEOUT 1200 SKIP_RETURN_CODE 77 LABELS "${labels}")
  # It has as many cases as GW_HOSTILE says, gives up by itself when one of them hangs, and
  # keeps all cores busy.
  if(name STREQUAL "test_hostile_peer")
    set_tests_properties(${name} PROPERTIES TIMEOUT 86400 PROCESSORS 2)
  endif()
  # It opens two dozen pages in a browser.
  if(name STREQUAL "test_report_page")
    set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
  endif()
  # They start several ranks, on several hosts: the cores are their own meanwhile.
  if(name MATCHES "^test_(cluster|python_two_pcs)")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
  # Their ranks mostly wait, for each other and for mpirun, which takes half a minute to end a job.
  if(name MATCHES "^test_mpi_")
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK mpirun)
  endif()
  # What takes a minute or two goes first, so that nothing else waits for it at the end.
  list(FIND GRADWIRE_LONG_TESTS "${name}" place)
  if(place GREATER -1)
    set_tests_properties(${name} PROPERTIES COST 100)
  endif()
endfunction()

function(gradwire_cmocka_test source)
  cmake_path(GET source STEM name)
  set(label lib)
  if(name MATCHES "^test_(train|command)_")
    if(NOT TARGET gradwire_train)
      return()
    endif()
    set(label train)
  endif()
  if(name MATCHES "^test_group_" AND NOT TARGET gradwire_group_static)
    return()
  endif()
  gradwire_executable(${name} tests ${source})
  if(TARGET test_support)
    target_link_libraries(${name} PRIVATE test_support)
  endif()
  target_include_directories(${name} PRIVATE src tests/support)
  target_include_directories(${name} SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
  if(label STREQUAL "train")
    target_link_libraries(${name} PRIVATE gradwire_train)
  endif()
  if(name MATCHES "^test_command_")
    target_include_directories(${name} PRIVATE cli)
  endif()
  if(name MATCHES "^test_group_")
    target_link_libraries(${name} PRIVATE gradwire_group_static)
  endif()
  target_link_libraries(${name} PRIVATE gradwire_static ${CMOCKA_LIBRARY})
  add_test(NAME ${name} COMMAND ${name})
  gradwire_test_properties(${name} ${label})
endfunction()

function(gradwire_script_test script)
  cmake_path(GET script STEM name)
  cmake_path(GET script EXTENSION extension)
  set(command bash ${script})
  set(labels script)
  if(extension STREQUAL ".py")
    set(command ${GRADWIRE_PYTHON} ${script})
    # Python itself is not built with sanitizers, and the stages with them leave it out;
    # but the hostile peer loads the address sanitizer for its workers.
    if(NOT (name STREQUAL "test_hostile_peer" AND GRADWIRE_SANITIZE MATCHES "address"))
      list(APPEND labels python)
    endif()
  endif()
  if(script MATCHES "/tests/(python|torch)/")
    list(APPEND labels binding)
  endif()
  if(name MATCHES "_page$")
    list(APPEND labels page)
  endif()
  if(name MATCHES "^test_install")
    list(APPEND labels install)
  elseif(NOT TARGET gradwire_cli)
    return()
  endif()
  gradwire_add_script(${name} "${labels}" ${command})
endfunction()

# A test that runs a command in the build directory and is told where things are.
function(gradwire_add_script name labels)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
  gradwire_test_properties(${name} ${labels})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "GRADWIRE=${PROJECT_BINARY_DIR}/gradwire;GRADWIRE_SOURCE=${PROJECT_SOURCE_DIR};GRADWIRE_BUILD=${PROJECT_BINARY_DIR};PYTHONPATH=${PROJECT_SOURCE_DIR}/python:${PROJECT_SOURCE_DIR}/tests/support")
endfunction()

# An example for PyTorch, on 2 and on 4 processes: a file that says at its top how it is
# started. Those that say nothing are modules of the others.
function(gradwire_python_example script)
  file(READ ${script} text)
  if(NOT text MATCHES "\n    (torchrun|accelerate|python3?) ")
    return()
  endif()
  cmake_path(GET script STEM name)
  foreach(workers 2 4)
    gradwire_add_script(example_${name}_${workers} "python;binding" ${GRADWIRE_PYTHON}
      ${PROJECT_SOURCE_DIR}/tests/support/torch_example.py ${script} ${workers})
  endforeach()
endfunction()

# Examples link the shared library: they show that it exports what they need.
function(gradwire_example source)
  cmake_path(GET source STEM name)
  set(libraries gradwire_shared)
  if(name STREQUAL "elastic")
    if(NOT TARGET gradwire_group_shared)
      return()
    endif()
    list(PREPEND libraries gradwire_group_shared)
  endif()
  gradwire_executable(example_${name} examples ${source})
  target_link_libraries(example_${name} PRIVATE ${libraries})
  add_test(NAME example_${name} COMMAND example_${name})
  gradwire_test_properties(example_${name} example)
endfunction()

if(CMOCKA_INCLUDE_DIR AND CMOCKA_LIBRARY)
  if(support_sources)
    add_library(test_support OBJECT ${support_sources})
    gradwire_compile(test_support)
    target_include_directories(test_support PRIVATE include src tests/support)
    target_include_directories(test_support SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
  endif()
  foreach(source ${test_sources})
    gradwire_cmocka_test(${source})
  endforeach()
elseif(test_sources)
  gradwire_missing("the unit tests" cmocka libcmocka-dev)
endif()
if(TARGET gradwire_train)
  gradwire_executable(twin_driver tests tests/train/twin_driver.c)
  target_link_libraries(twin_driver PRIVATE gradwire_train gradwire_static)
endif()
foreach(script ${test_scripts})
  gradwire_script_test(${script})
endforeach()
if(GRADWIRE_PYTHON_EXAMPLES)
  file(GLOB python_examples CONFIGURE_DEPENDS python/examples/*.py)
  foreach(script ${python_examples})
    gradwire_python_example(${script})
  endforeach()
endif()
foreach(source ${example_sources})
  gradwire_example(${source})
endforeach()
if(TARGET gradwire_mpi_static)
  include(GradwireMpiTests)
endif()
