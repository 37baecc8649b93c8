"""The application, as its worker and main.py see it."""
import os
import pathlib
import signal

import celery
import kombu

PREFIX = os.environ["PREFIX"]
app = celery.Celery("conformance", broker=os.environ["AMQP_URL"])
app.conf.update(
    task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1, broker_heartbeat=0,
    broker_connection_retry_on_startup=True, broker_transport_options={"confirm_publish": True}, task_ignore_result=True,
    task_default_queue=f"{PREFIX}.tasks", task_default_exchange=f"{PREFIX}.tasks", task_default_routing_key=f"{PREFIX}.tasks",
    task_queues=[kombu.Queue(f"{PREFIX}.tasks", kombu.Exchange(f"{PREFIX}.tasks", "direct"), f"{PREFIX}.tasks",
                             queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{PREFIX}.dead"})],
    control_exchange=f"{PREFIX}.pidbox", event_exchange=f"{PREFIX}.events")


def note(line):
    """What a task did is told in a file, a line each, which is appended in one write."""
    with open(os.environ["NOTES"], "a") as f:
        f.write(line + "\n")


@app.task
def add(a, b):
    note(f"add {a + b}")


@app.task(bind=True, max_retries=3)
def flaky(self):
    note(f"flaky {self.request.retries}")
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)


@app.task
def kill_worker_once(marker):
    """The first time it takes its process along."""
    path = pathlib.Path(marker)
    if not path.exists():
        path.touch()
        note("killing")
        os.kill(os.getpid(), signal.SIGKILL)
    note("survived")


@app.task
def refuse():
    note("refusing")
    raise celery.exceptions.Reject("no", requeue=False)
