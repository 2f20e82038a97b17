# Checks greet.sh: `sh test.sh`.
failed=0
expect() {
    wanted=$1
    shift
    got=$(sh greet.sh "$@")
    if [ "$got" = "$wanted" ]; then
        echo "ok      $wanted"
    else
        echo "FAILED  wanted: $wanted  got: $got"
        failed=1
    fi
}
expect "Hello, world!"
expect "Hello, Ada!" Ada
exit $failed
