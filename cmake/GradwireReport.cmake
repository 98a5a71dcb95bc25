# SPDX-License-Identifier: Apache-2.0
#
# Bundles the page of `gradwire report` (report/, with its chart library from npm)
# into one file, which becomes part of the command. It is done while configuring:
# without npm, or where npm gets no packages, the command is built all the same and
# says so when a page is asked for.
#
# Sets GRADWIRE_PAGE_FILE to the file and GRADWIRE_PAGE_LICENSE to the licence of the
# chart library in it, or leaves them empty. A build without a network takes the folder
# report/ of another build: -DGRADWIRE_REPORT_FROM=/there/build/report
set(GRADWIRE_PAGE_FILE "")
set(GRADWIRE_PAGE_LICENSE "")
set(GRADWIRE_REPORT_FROM "" CACHE PATH "Where a page was bundled before; npm is not used")
mark_as_advanced(GRADWIRE_REPORT_FROM)
option(GRADWIRE_REPORT "Put the report page into the command (needs npm)" ON)
find_program(NPM_EXECUTABLE npm)
mark_as_advanced(NPM_EXECUTABLE)

# Builds the page in a copy of report/, unless that was done from the same files.
function(gradwire_bundle_page out)
  file(GLOB inputs CONFIGURE_DEPENDS report/package.json report/package-lock.json
    report/.npmrc report/build.mjs report/src/*)
  set(state "")
  foreach(input ${inputs})
    file(SHA256 ${input} hash)
    string(APPEND state "${hash}\n")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})
  set(folder ${PROJECT_BINARY_DIR}/report)
  set(before "")
  if(EXISTS ${folder}/page.html AND EXISTS ${folder}/inputs.txt)
    file(READ ${folder}/inputs.txt before)
  endif()
  if(NOT before STREQUAL state)
    message(STATUS "Bundling the report page")
    file(REMOVE ${folder}/page.html)
    file(COPY report/ DESTINATION ${folder} PATTERN node_modules EXCLUDE)
    execute_process(COMMAND ${NPM_EXECUTABLE} ci --no-audit --no-fund --ignore-scripts
      WORKING_DIRECTORY ${folder} RESULT_VARIABLE failed
      OUTPUT_FILE npm.log ERROR_FILE npm.log)
    if(NOT failed)
      execute_process(COMMAND ${NPM_EXECUTABLE} run --silent build -- page.html
        WORKING_DIRECTORY ${folder} RESULT_VARIABLE failed
        OUTPUT_FILE build.log ERROR_FILE build.log)
    endif()
    if(failed OR NOT EXISTS ${folder}/page.html)
      message(STATUS "  npm failed; see ${folder}/npm.log and build.log")
      return()
    endif()
    file(WRITE ${folder}/inputs.txt "${state}")
  endif()
  set(${out} ${folder}/page.html PARENT_SCOPE)
endfunction()

if(GRADWIRE_REPORT AND EXISTS "${GRADWIRE_REPORT_FROM}/page.html")
  set(GRADWIRE_PAGE_FILE ${GRADWIRE_REPORT_FROM}/page.html)
elseif(GRADWIRE_REPORT AND NPM_EXECUTABLE)
  gradwire_bundle_page(GRADWIRE_PAGE_FILE)
endif()
if(GRADWIRE_PAGE_FILE)
  cmake_path(REPLACE_FILENAME GRADWIRE_PAGE_FILE node_modules/uplot/LICENSE
    OUTPUT_VARIABLE GRADWIRE_PAGE_LICENSE)
endif()
if(GRADWIRE_REPORT AND NOT GRADWIRE_PAGE_FILE)
  gradwire_missing("the page of 'gradwire report'" "npm and its packages" npm)
endif()
