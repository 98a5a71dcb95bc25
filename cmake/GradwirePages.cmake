# SPDX-License-Identifier: Apache-2.0
#
# Manual pages and shell completion, which the command makes from its own tables, and
# their installation. A command that cannot run here, because it was built for another
# machine, has none.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  gradwire_missing("manual pages and completion" "an emulator of the machine" qemu-user)
  return()
endif()

set(pages ${PROJECT_BINARY_DIR}/share)
add_custom_command(OUTPUT ${pages}/made.txt
  COMMAND gradwire_cli help --generate ${pages}
  COMMAND ${CMAKE_COMMAND} -E touch ${pages}/made.txt
  DEPENDS gradwire_cli COMMENT "Making manual pages and completion" VERBATIM)
add_custom_target(gradwire_pages ALL DEPENDS ${pages}/made.txt)
add_dependencies(product gradwire_pages)

if(PROJECT_IS_TOP_LEVEL)
  # Debian has its own place for what packages bring to zsh.
  set(GRADWIRE_ZSH_DIR ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
    CACHE STRING "Where the completion for zsh is installed")
  mark_as_advanced(GRADWIRE_ZSH_DIR)
  install(DIRECTORY ${pages}/man/ TYPE MAN)
  install(DIRECTORY ${pages}/bash-completion ${pages}/fish
    DESTINATION ${CMAKE_INSTALL_DATADIR})
  install(DIRECTORY ${pages}/zsh/site-functions/ DESTINATION ${GRADWIRE_ZSH_DIR})
endif()
