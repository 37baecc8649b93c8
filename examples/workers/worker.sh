#!/bin/sh
# A worker in shell, with curl and jq: worker.sh URL QUEUE
# (`nixie work` does all this for you, and renews the lease while a command runs.)
base=${1%/}/queues/$(jq -rn --arg name "$2" '$name | @uri')

post() { # post PATH JSON: prints the reply, fails unless it is 2xx
    curl -sS --fail-with-body --max-time 60 --json "$2" "$base/$1"
}

handle() { # your work goes here; doing it twice must do no harm. 65: the data is bad
    letter=$(cat)
    printf '%s' "$letter" | jq empty || return 65
    printf '%s' "$letter" | jq -r '"to \(.to // error("letter has no to")): \(.text)"'
}

errors=$(mktemp) || exit 1
trap 'rm -f "$errors"' EXIT
trap 'exit 143' TERM INT

while :; do
    if ! reply=$(post claim '{"wait_seconds": 20, "lease_seconds": 60, "worker": "worker.sh"}'); then
        echo "no claim, trying again: $reply" >&2
        sleep 1
        continue
    fi
    printf '%s' "$reply" | jq -e .claimed >/dev/null || continue

    code=0
    printf '%s' "$reply" | jq -j .message.payload | handle 2>"$errors" || code=$?
    if [ $code -eq 0 ]; then verb=succeed; else verb=fail; fi
    settle=$(printf '%s' "$reply" | jq --argjson code $code --rawfile error "$errors" \
        '{lease: .message.lease} + if $code == 0 then {} else
         {error: $error, error_class: "exit \($code)", permanent: ($code == 65)} end')
    post "messages/$(printf '%s' "$reply" | jq .message.id)/$verb" "$settle" >/dev/null
done
