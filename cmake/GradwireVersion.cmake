# SPDX-License-Identifier: Apache-2.0
#
# Sets GRADWIRE_HEADER_VERSION from the three lines in gradwire.h, the only place
# where the version is written.
set(GRADWIRE_HEADER_VERSION "")
foreach(part MAJOR MINOR PATCH)
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../include/gradwire.h line
    REGEX "^#define GW_VERSION_${part} [0-9]+$")
  if(NOT line MATCHES "([0-9]+)$")
    message(FATAL_ERROR "gradwire.h does not define GW_VERSION_${part}")
  endif()
  list(APPEND GRADWIRE_HEADER_VERSION ${CMAKE_MATCH_1})
endforeach()
list(JOIN GRADWIRE_HEADER_VERSION "." GRADWIRE_HEADER_VERSION)
