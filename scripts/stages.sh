# SPDX-License-Identifier: Apache-2.0
#
# Runs checks stage by stage and counts them, for the scripts that source this file in the
# top folder of the project: they call `stage NAME COMMAND...` as often as they like (or
# `stages_together`), and `closing_line` at the end. Arguments of such a script name the
# stages to run.
#
# Each test that ctest runs counts as one, and so does each other stage. Logs are
# in build/logs; what failed is also shown at once.

cores=$(nproc)
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$cores}
# Many tests wait for one another most of the time.
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$((2 * cores))}
if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then
    export CMAKE_GENERATOR=Ninja
fi
# Property tests take this seed, unless GW_TEST_SEED says otherwise: another tree has
# another one, and the same tree passes every time or fails every time.
tree=$(git rev-parse --verify --quiet 'HEAD^{tree}' || echo 1)
export GW_DEFAULT_SEED=${GW_DEFAULT_SEED:-$((16#${tree:0:5} % 1000000))}
logs=$PWD/build/logs
mkdir -p "$logs"

chosen=("$@")
passed=0
failed=0
skipped=0

# Prints the attribute ("tests", "failures", "skipped") of a ctest result file.
count_of() {
    sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1
}

# Adds up a stage: by its result file if ctest wrote one, otherwise as one check,
# skipped if the status is 77.
# A stage that failed without a failed test, for instance while building, is one
# failure more.
tally() {
    local status=$1 results=$2 all=0 bad=0 idle=0

    if [ -s "$results" ]; then
        all=$(count_of tests "$results")
        bad=$(count_of failures "$results")
        idle=$(($(count_of skipped "$results") + $(count_of disabled "$results")))
    elif [ "$status" -eq 0 ]; then
        all=1
    elif [ "$status" -eq 77 ]; then
        all=1
        idle=1
    fi
    if [ "$status" -ne 0 ] && [ "$status" -ne 77 ] && [ "$bad" -eq 0 ]; then
        all=$((all + 1))
        bad=1
    fi
    passed=$((passed + all - bad - idle))
    failed=$((failed + bad))
    skipped=$((skipped + idle))
    counts="$((all - bad - idle)) passed, $bad failed"
    if [ "$idle" -gt 0 ]; then counts+=", $idle skipped"; fi
}

# Prints the end of a log, and before it what the failed tests printed: ctest writes that
# where the test ended, which may be far from the log's end.
what_failed() {
    awk '/\*\*\*/ { left = 60 } / Start +[0-9]+: / { left = 0 } left-- > 0' "$1" | head -n 400
    tail -n 40 "$1"
}

wanted() {
    [ ${#chosen[@]} -eq 0 ] || [[ " ${chosen[*]} " == *" $1 "* ]]
}

# report NAME SECONDS STATUS: counts a stage that has ended and prints one line about it.
report() {
    tally "$3" "$logs/$1.xml"
    printf '%-14s %4d s   %s\n' "$1" "$2" "$counts"
    if [ "$3" -ne 0 ] && [ "$3" -ne 77 ]; then
        what_failed "$logs/$1.log" | sed 's/^/    /'
        echo "    (full log: build/logs/$1.log)"
    fi
}

# stage NAME COMMAND...: runs it with its output in a log, prints one line.
stage() {
    local name=$1 begin=$SECONDS status=0
    shift
    wanted "$name" || return 0
    results=$logs/$name.xml
    rm -f "$results"
    ("$@") >"$logs/$name.log" 2>&1 </dev/null || status=$?
    report "$name" $((SECONDS - begin)) "$status"
}

# What runs beside the script: jobs are process groups, which end with the script.
declare -A job_of=() begin_of=()
end_jobs() {
    local name
    for name in "${!job_of[@]}"; do kill -- "-${job_of[$name]}" 2>/dev/null; done
}
trap end_jobs EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# beside NAME COMMAND...: starts it and goes on. Those who do not count it as a stage wait
# for it by `await NAME`.
beside() {
    local name=$1
    shift
    results=$logs/$name.xml
    rm -f "$results"
    begin_of[$name]=$SECONDS
    set -m
    ("$@") >"$logs/$name.log" 2>&1 </dev/null &
    job_of[$name]=$!
    set +m
}

await() {
    local status=0
    wait "${job_of[$1]}" || status=$?
    unset "job_of[$1]"
    return "$status"
}

# stages_together NAME COMMAND... [+ NAME COMMAND...]: stages that run at the same time.
stages_together() {
    local words=() names=() name word status
    for word in "$@" +; do
        if [ "$word" != + ]; then
            words+=("$word")
            continue
        fi
        if wanted "${words[0]}"; then
            names+=("${words[0]}")
            beside "${words[@]}"
        fi
        words=()
    done
    for name in "${names[@]}"; do
        status=0
        await "$name" || status=$?
        report "$name" $((SECONDS - begin_of[$name])) "$status"
    done
}

# Prints the sum of all stages; fails if a check failed or none passed.
closing_line() {
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
