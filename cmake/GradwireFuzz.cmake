# SPDX-License-Identifier: Apache-2.0
#
# fuzz/fuzz_NAME.c defines LLVMFuzzerTestOneInput(). With GRADWIRE_FUZZ it becomes
# a libFuzzer executable; otherwise a test that replays fuzz/corpus/NAME.
file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/fuzz_*.c)
if(GRADWIRE_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "GRADWIRE_FUZZ needs clang; this is ${CMAKE_C_COMPILER_ID}")
endif()

foreach(source ${fuzz_sources})
  cmake_path(GET source STEM name)
  string(REGEX REPLACE "^fuzz_" "" corpus ${name})
  if(GRADWIRE_FUZZ)
    gradwire_executable(${name} fuzz ${source})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    gradwire_executable(${name} fuzz ${source} ${PROJECT_SOURCE_DIR}/fuzz/replay.c)
    add_test(NAME ${name} COMMAND ${name} ${PROJECT_SOURCE_DIR}/fuzz/corpus/${corpus})
    gradwire_test_properties(${name} lib)
  endif()
  target_include_directories(${name} PRIVATE src)
  target_link_libraries(${name} PRIVATE gradwire_static)
endforeach()
