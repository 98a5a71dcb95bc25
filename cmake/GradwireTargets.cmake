# SPDX-License-Identifier: Apache-2.0
#
# Flags that all of gradwire's own code is compiled with, and the list of what
# the configuration did not find.

# Workers on unlike machines must compute the same bits, hence no contraction into
# fused multiply-adds; target attributes in the code, not flags here, choose
# instruction sets.
function(gradwire_compile target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON C_VISIBILITY_PRESET hidden)
  target_compile_options(${target} PRIVATE
    -ffp-contract=off -Wall -Wextra -Wpedantic -Wconversion
    $<$<BOOL:${GRADWIRE_WERROR}>:-Werror>)
  if(GRADWIRE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${GRADWIRE_SANITIZE}
      -fno-sanitize-recover=all -fno-omit-frame-pointer)
  endif()
  if(GRADWIRE_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

function(gradwire_link_options target)
  if(GRADWIRE_SANITIZE)
    target_link_options(${target} PRIVATE -fsanitize=${GRADWIRE_SANITIZE})
  endif()
endfunction()

# An executable of gradwire's own in the given folder of the build directory.
function(gradwire_executable target folder)
  add_executable(${target} ${ARGN})
  gradwire_compile(${target})
  gradwire_link_options(${target})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
endfunction()

# Notes that `part` is left out because `what` (Debian's `package`) is not there.
function(gradwire_missing part what package)
  set_property(GLOBAL APPEND PROPERTY GRADWIRE_MISSING "${part}: needs ${what} (${package})")
endfunction()

function(gradwire_report_missing)
  get_property(missing GLOBAL PROPERTY GRADWIRE_MISSING)
  if(missing)
    list(JOIN missing "\n     " lines)
    message(STATUS "Left out, for want of (Debian's package):\n     ${lines}")
  endif()
endfunction()
