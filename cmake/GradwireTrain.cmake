# SPDX-License-Identifier: Apache-2.0
#
# The trainer (train/) and the command (cli/, bench/). The trainer and the command see
# installed headers of the library only; the benchmarks may look inside it.
file(GLOB_RECURSE train_sources CONFIGURE_DEPENDS train/*.c)
file(GLOB_RECURSE cli_sources CONFIGURE_DEPENDS cli/*.c)
file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.c)

find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(DNNL_LIBRARY dnnl)
find_package(ZLIB QUIET)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)

set(trainer_possible ON)
if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
  gradwire_missing("the trainer and the gradwire command" oneDNN libdnnl-dev)
  set(trainer_possible OFF)
endif()
if(DNNL_INCLUDE_DIR AND EXISTS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
  # Convolutions use its C interface, which version 3 has changed.
  file(STRINGS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h dnnl_major
    REGEX "define DNNL_VERSION_MAJOR +2$")
  if(NOT dnnl_major)
    gradwire_missing("the trainer and the gradwire command" "oneDNN 2" libdnnl-dev)
    set(trainer_possible OFF)
  endif()
endif()
if(NOT ZLIB_FOUND)
  gradwire_missing("the trainer and the gradwire command" zlib zlib1g-dev)
  set(trainer_possible OFF)
endif()

if(trainer_possible AND train_sources)
  add_library(gradwire_train STATIC ${train_sources})
  gradwire_compile(gradwire_train)
  # Otherwise gcc keeps square roots scalar, for the sake of errno.
  target_compile_options(gradwire_train PRIVATE -fno-math-errno)
  target_include_directories(gradwire_train PUBLIC train)
  target_include_directories(gradwire_train SYSTEM PRIVATE ${DNNL_INCLUDE_DIR})
  target_link_libraries(gradwire_train
    PUBLIC gradwire_static
    PRIVATE ${DNNL_LIBRARY} ZLIB::ZLIB Threads::Threads m)
endif()

if(TARGET gradwire_train AND cli_sources)
  include(GradwireReport)
  add_library(gradwire_bench OBJECT ${bench_sources})
  gradwire_compile(gradwire_bench)
  target_include_directories(gradwire_bench PRIVATE src bench cli)
  target_link_libraries(gradwire_bench PRIVATE gradwire_static gradwire_train)
  if(NOT TARGET gradwire_mpi_static)
    list(FILTER cli_sources EXCLUDE REGEX "launch_mpi\\.c$")
  endif()
  if(TARGET gradwire_group_static)
    list(FILTER cli_sources EXCLUDE REGEX "join_absent\\.c$")
  else()
    list(FILTER cli_sources EXCLUDE REGEX "cli/group/(join|meet_command|status_command)\\.c$")
  endif()
  gradwire_executable(gradwire_cli . ${cli_sources})
  if(TARGET gradwire_mpi_static)
    target_compile_definitions(gradwire_cli PRIVATE GRADWIRE_HAVE_MPI)
    target_link_libraries(gradwire_cli PRIVATE gradwire_mpi_static)
  endif()
  if(TARGET gradwire_group_static)
    target_compile_definitions(gradwire_cli PRIVATE GRADWIRE_HAVE_GROUP)
    target_link_libraries(gradwire_cli PRIVATE gradwire_group_static)
  endif()
  set_target_properties(gradwire_cli PROPERTIES OUTPUT_NAME gradwire)
  target_link_libraries(gradwire_cli PRIVATE gradwire_bench gradwire_static gradwire_train)
  target_include_directories(gradwire_cli PRIVATE cli)
  target_compile_definitions(gradwire_cli PRIVATE
    GRADWIRE_LIBDIR="${CMAKE_INSTALL_LIBDIR}")
  if(GRADWIRE_PAGE_FILE)
    set_source_files_properties(cli/report/page_bytes.c PROPERTIES
      COMPILE_DEFINITIONS "GRADWIRE_PAGE_FILE=\"${GRADWIRE_PAGE_FILE}\""
      OBJECT_DEPENDS ${GRADWIRE_PAGE_FILE})
  endif()
  add_dependencies(product gradwire_cli)
  include(GradwirePages)
endif()
