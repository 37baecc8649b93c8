#!/usr/bin/python3
"""A worker in Python, standard library only: worker.py URL QUEUE"""
import http.client
import json
import sys
import time
import traceback
from urllib import parse, request

BASE = sys.argv[1].rstrip("/") + "/queues/" + parse.quote(sys.argv[2], safe="")


def call(path, **body):
    post = request.Request(BASE + path, json.dumps(body).encode(),
                           {"Content-Type": "application/json"})
    with request.urlopen(post, timeout=60) as reply:
        return json.load(reply)


def handle(text):  # your work goes here; doing it twice must do no harm
    letter = json.loads(text)
    print(f"to {letter['to']}: {letter['text']}", flush=True)


while True:
    try:
        message = call("/claim", wait_seconds=20, lease_seconds=60, worker="worker.py")["message"]
        if not message:
            continue
        verb, body = "succeed", {"lease": message["lease"]}
        try:
            handle(message["payload"])
        except Exception as e:
            verb = "fail"  # bad data never gets better: do not try it again
            body |= {"permanent": isinstance(e, ValueError), "error": str(e),
                     "error_class": type(e).__name__, "detail": traceback.format_exc()}
        call(f"/messages/{message['id']}/{verb}", **body)
    except (OSError, http.client.HTTPException) as e:  # no server, or the lease ran out (409):
        print(e, file=sys.stderr)                      # the message will be delivered again
        time.sleep(1)
