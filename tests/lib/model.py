"""A naive model of the queues: dictionaries and loops, whole seconds, nothing clever. Written from docs/http-api.md."""

POLICIES = {
    "plain": {},
    "short": {"max_retries": 2, "backoff": {"kind": "fixed", "base_seconds": 5}, "lease_seconds": 20,
              "retention": {"succeeded_seconds": 50, "succeeded_max": 3, "dead_seconds": 200}},
    "tight": {"backoff": {"kind": "list", "list_seconds": [0, 7, 30]}, "ttl_seconds": 60, "delay_seconds": 3, "max_messages": 6,
              "idempotency_window_seconds": 30, "redrive_limit": 1},
}
UNDISCARD = 86400  # seconds in which a discard can be undone


class Refused(Exception):
    """The status a server should answer with."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


class Message:
    def __init__(self, mid, now, payload, max_retries, priority, available, ttl, key):
        self.id, self.created, self.updated = mid, now, now
        self.payload, self.max_retries, self.priority, self.key = payload, max_retries, priority, key
        self.available = available  # by a delay
        self.retry_at = None        # by a failure
        self.ttl, self.expires = ttl, None if ttl is None else now + ttl
        self.status, self.retry_count, self.deliveries = "pending", 0, 0
        self.error = self.error_class = self.reason = self.died = self.lease = self.lease_end = self.done = None
        self.redrives, self.gone, self.why = 0, None, None
        self.alone = False    # it is handed out alone
        self.company = False  # it was not the only one of its claim
        self.story = []

    def due(self):
        return max(self.available or 0, self.retry_at or 0)


class Queue:
    def __init__(self, policy):
        self.policy = policy
        self.messages = {}   # by id: all that can be read
        self.keys = {}       # idempotency key: (message id, time)
        self.accepted = self.succeeded = self.discarded = self.expired = 0
        self.paused = None   # since when

    # -- policy ---------------------------------------------------------------------------------------------------------

    def setting(self, name, default):
        return self.policy.get(name, default)

    def retention(self, name, default):
        return self.policy.get("retention", {}).get(name, default)

    def backoff(self, n):
        b = self.policy.get("backoff", {"kind": "exponential"})
        if b["kind"] == "fixed":
            return b["base_seconds"]
        if b["kind"] == "list":
            return b["list_seconds"][min(n, len(b["list_seconds"])) - 1]
        return min(2**n, 3600)

    # -- time -----------------------------------------------------------------------------------------------------------

    def tick(self, now):
        for m in self.messages.values():
            if m.status == "processing" and m.lease_end <= now:
                m.story.append((m.deliveries, "lease_expired", now))
                self._lease_expired(m, now)
        for m in self.messages.values():
            if m.status == "pending" and m.expires is not None and m.expires <= now:
                m.story.append((m.deliveries, "expired", now))
                self._die(m, now, "expired")
        self._forget(now)

    def _kept_for_its_key(self, m, now):
        return m.key is not None and now < m.created + self.setting("idempotency_window_seconds", 3600)

    def _forget(self, now):
        done = sorted((m for m in self.messages.values() if m.status == "succeeded"), key=lambda m: m.id)
        over = len(done) - self.retention("succeeded_max", 1000000)
        for m in done:
            if self._kept_for_its_key(m, now):
                continue
            if over <= 0 and m.done[0] + self.retention("succeeded_seconds", 3600) > now:
                continue
            del self.messages[m.id]
            over -= 1
        dead_seconds = self.retention("dead_seconds", None)
        for m in list(self.messages.values()):
            over = dead_seconds is not None and m.status == "dead" and m.died + dead_seconds <= now
            if over and not self._kept_for_its_key(m, now):
                del self.messages[m.id]
                self.discarded += 1
                self.expired += 1
            elif m.status == "discarded" and m.gone <= now:
                del self.messages[m.id]

    def _die(self, m, now, reason):
        m.status, m.reason, m.died, m.updated, m.available, m.retry_at = "dead", reason, now, now, None, None

    def _lease_expired(self, m, now):
        """Near its limit it goes alone the next time; in company it does not die of it."""
        if m.company and m.retry_count + 1 >= m.max_retries:
            self._note_failure(m, now, "lease_expired", None)
            self._back(m, now, None)
            m.alone = True
        else:
            self._failed(m, now, "lease_expired", None, None)
            m.alone = m.status == "pending" and m.retry_count + 1 >= m.max_retries

    def _failed(self, m, now, error_class, error, wait, permanent=False):
        m.retry_count += 1
        self._note_failure(m, now, error_class, error)
        if permanent or m.retry_count >= m.max_retries:
            lease = error_class == "lease_expired" and error is None
            self._die(m, now, "permanent" if permanent else "lease_expired" if lease else "max_retries")
        else:
            self._back(m, now, wait)

    def _note_failure(self, m, now, error_class, error):
        m.error_class, m.error, m.updated = error_class, error, now
        m.lease = m.lease_end = None
        m.alone = False

    def _back(self, m, now, wait):
        m.status = "pending"
        m.retry_at = now + (self.backoff(max(m.retry_count, 1)) if wait is None else wait)

    # -- verbs ----------------------------------------------------------------------------------------------------------

    def known(self, now, key):
        """The id of the message a key stands for, or None."""
        if key in self.keys:
            mid, since = self.keys[key]
            if now < since + self.setting("idempotency_window_seconds", 3600):
                return mid
        return None

    def unfinished(self):
        return sum(m.status in ("pending", "processing") for m in self.messages.values())

    def check_room(self, now, items):
        """Raises 429 when the new ones among items do not fit."""
        new, seen = 0, set()
        for item in items:
            key = item.get("idempotency_key")
            if key is not None and (key in seen or self.known(now, key) is not None):
                continue
            seen.add(key)
            new += 1
        if new and self.unfinished() + new > self.setting("max_messages", 10**9):
            raise Refused(429)

    def enqueue(self, now, mid, item):
        """Adds a message under the id the server chose."""
        delay = item.get("delay_seconds", self.setting("delay_seconds", 0))
        m = Message(mid, now, item["payload"], item.get("max_retries", self.setting("max_retries", 3)), item.get("priority", 0),
                    now + delay if delay else None, item.get("ttl_seconds", self.setting("ttl_seconds", None)),
                    item.get("idempotency_key"))
        self.messages[mid] = m
        self.accepted += 1
        if m.key is not None:
            self.keys[m.key] = (mid, now)
        return m

    def ready(self, now):
        found = [m for m in self.messages.values() if m.status == "pending" and m.due() <= now]
        return sorted(found, key=lambda m: (-m.priority, m.id))

    def claim(self, now, count, lease_seconds):
        got, ready = [], self.ready(now) if self.paused is None else []
        for m in ready[:count]:
            if not got or not m.alone:
                got.append(m)
            if m.alone:
                break
        in_company = count > 1 and len(ready) > 1 and not got[0].alone
        for m in got:
            m.company = in_company
            m.status, m.updated, m.available, m.retry_at = "processing", now, None, None
            m.deliveries += 1
            m.lease_end = now + (lease_seconds or self.setting("lease_seconds", 300))
            m.story.append((m.deliveries, "claimed", now))
        return got

    def find(self, mid):
        if mid not in self.messages:
            raise Refused(404)
        return self.messages[mid]

    def settle(self, now, mid, action, lease=None, **fields):
        m = self.find(mid)
        if m.status != "processing" or (lease is not None and lease != m.lease):
            raise Refused(409)
        if action == "succeed":
            m.status, m.updated, m.lease = "succeeded", now, None
            self.succeeded += 1
            m.done = (now, self.succeeded)
            m.story.append((m.deliveries, "succeeded", now))
        elif action == "fail":
            m.story.append((m.deliveries, "failed", now))
            self._failed(m, now, fields.get("error_class"), fields.get("error", ""), fields.get("retry_after_seconds"),
                         fields.get("permanent", False))
        elif action == "release":
            m.story.append((m.deliveries, "released", now))
            m.status, m.updated, m.lease, m.alone = "pending", now, None, False
            delay = fields.get("delay_seconds", 0)
            m.available = now + delay if delay else None
        else:
            m.updated = now
            m.lease_end = now + fields.get("lease_seconds", self.setting("lease_seconds", 300))
        return m

    def replay(self, now, mid, force=False):
        m = self.find(mid)
        if m.status != "dead" or (m.redrives >= self.setting("redrive_limit", 3) and not force):
            raise Refused(409)
        m.status, m.updated, m.retry_count = "pending", now, 0
        m.redrives += 1
        m.error = m.error_class = m.reason = m.died = m.available = m.retry_at = None
        m.expires = None if m.ttl is None else now + m.ttl
        m.story.append((m.deliveries, "replayed", now))
        return m

    def discard(self, now, mid, why):
        m = self.find(mid)
        if m.status != "dead":
            raise Refused(409)
        m.status, m.updated, m.gone, m.why = "discarded", now, now + UNDISCARD, why
        m.story.append((m.deliveries, "discarded", now))
        self.discarded += 1
        return m

    def undiscard(self, now, mid):
        m = self.find(mid)
        if m.status != "discarded":
            raise Refused(409)
        m.status, m.updated, m.gone, m.why = "dead", now, None, None
        m.story.append((m.deliveries, "undiscarded", now))
        self.discarded -= 1
        return m

    # -- what can be seen -------------------------------------------------------------------------------------------------

    def counts(self, now):
        n = {s: sum(m.status == s for m in self.messages.values())
             for s in ("pending", "processing", "dead", "succeeded", "discarded")}
        return {**n, "parked": 0, "held": 0, "ready": len(self.ready(now))}

    def terms(self):
        n = self.counts(0)
        return {"accepted": self.accepted, "moved_in": 0, "pending": n["pending"], "processing": n["processing"], "parked": 0,
                "dead": n["dead"], "succeeded_total": self.succeeded, "discarded_total": self.discarded, "moved_out": 0, "holds": True}

    def bytes(self):
        return sum(len(m.payload.encode()) for m in self.messages.values() if m.status not in ("succeeded", "discarded"))

    def dead(self):
        return [m for m in self.messages.values() if m.status == "dead"]
