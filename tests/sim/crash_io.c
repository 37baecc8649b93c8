#include "sim/crash_io.h"

#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HANDLES_MAX 256
#define NAME_BYTES 64

struct file {
    int users; /* entries of both directories, journal and handles */
    int64_t size;
    uint8_t *now, *durable; /* the two images; none while all is zeros */
    uint64_t *dirty;        /* a bit a sector that differs, perhaps */
};

struct entry {
    char name[NAME_BYTES];
    struct file *file;
};

struct directory {
    struct entry *items;
    size_t count, cap;
};

/* A change of the directory that was not synced: to[0] == 0 is a removal, from[0] == 0 a new file. */
struct change {
    char from[NAME_BYTES], to[NAME_BYTES];
    struct file *file;
};

struct crash_io {
    struct rng rng;
    struct directory now, durable;
    struct change *changes;
    size_t change_count, change_cap;
    struct file *handles[HANDLES_MAX];
    bool locked, dead;
    unsigned die_in;
    unsigned fail_calls, fail_countdown, fail_times;
    int fail_error;
    int64_t capacity;
    unsigned lie_one_in;
    struct crash_io_counts counts;
};

/* -- files -------------------------------------------------------------------------------------------- */

static size_t sectors_of(int64_t size) {
    return (size_t)(size + CRASH_SECTOR - 1) / CRASH_SECTOR;
}

static struct file *file_new(int64_t size) {
    struct file *f = mem_alloc(sizeof *f);
    f->size = size;
    return f;
}

/* Before the first bytes are put there. */
static void file_fill(struct file *f) {
    if (f->now)
        return;
    f->now = mem_alloc((size_t)f->size);
    f->durable = mem_alloc((size_t)f->size);
    f->dirty = mem_alloc((sectors_of(f->size) / 64 + 1) * sizeof *f->dirty);
}

static struct file *file_copy(const struct file *f) {
    struct file *c = file_new(f->size);
    if (!f->now)
        return c;
    file_fill(c);
    memcpy(c->now, f->now, (size_t)f->size);
    memcpy(c->durable, f->durable, (size_t)f->size);
    memcpy(c->dirty, f->dirty, (sectors_of(f->size) / 64 + 1) * sizeof *f->dirty);
    return c;
}

static void file_drop(struct file *f) {
    assert(f->users > 0);
    if (--f->users > 0)
        return;
    free(f->now);
    free(f->durable);
    free(f->dirty);
    free(f);
}

static void sector_copy(struct file *f, size_t sector, uint8_t *to, const uint8_t *from) {
    size_t at = sector * CRASH_SECTOR, n = CRASH_SECTOR;
    if (n > (size_t)f->size - at)
        n = (size_t)f->size - at;
    memcpy(to + at, from + at, n);
}

static void mark_dirty(struct file *f, int64_t offset, size_t n) {
    if (n == 0)
        return;
    size_t last = (size_t)(offset + (int64_t)n - 1) / CRASH_SECTOR;
    for (size_t s = (size_t)offset / CRASH_SECTOR; s <= last; s++)
        f->dirty[s / 64] |= UINT64_C(1) << s % 64;
}

/* Calls for each dirty sector, and forgets them. */
static void each_dirty(struct crash_io *d, struct file *f,
                       void (*visit)(struct crash_io *d, struct file *f, size_t sector)) {
    for (size_t w = 0; f->now && w < sectors_of(f->size) / 64 + 1; w++)
        while (f->dirty[w]) {
            size_t bit = (size_t)__builtin_ctzll(f->dirty[w]);
            f->dirty[w] &= f->dirty[w] - 1;
            visit(d, f, w * 64 + bit);
        }
}

static void sector_sync(struct crash_io *d, struct file *f, size_t sector) {
    (void)d;
    sector_copy(f, sector, f->durable, f->now);
}

static void sector_lose(struct crash_io *d, struct file *f, size_t sector) {
    (void)d;
    sector_copy(f, sector, f->now, f->durable);
}

static void sector_toss(struct crash_io *d, struct file *f, size_t sector) {
    if (rng_u64(&d->rng) & 1)
        sector_lose(d, f, sector);
    else
        sector_sync(d, f, sector);
}

/* A failing sync wrote some sectors; the others it holds for clean, as kernels do: no later sync writes them. */
static void sector_forget(struct crash_io *d, struct file *f, size_t sector) {
    if (rng_u64(&d->rng) & 1)
        sector_sync(d, f, sector);
}

/* -- directories ---------------------------------------------------------------------------------------- */

static struct entry *entry_find(const struct directory *dir, const char *name) {
    for (size_t i = 0; i < dir->count; i++)
        if (strcmp(dir->items[i].name, name) == 0)
            return &dir->items[i];
    return NULL;
}

static void name_copy(char out[static NAME_BYTES], const char *name) {
    size_t n = strlen(name);
    assert(n < NAME_BYTES);
    memset(out, 0, NAME_BYTES);
    memcpy(out, name, n);
}

static void entry_remove(struct directory *dir, const char *name) {
    struct entry *e = entry_find(dir, name);
    if (!e)
        return;
    struct file *f = e->file;
    *e = dir->items[--dir->count];
    file_drop(f);
}

static void entry_put(struct directory *dir, const char *name, struct file *f) {
    f->users++;
    entry_remove(dir, name);
    if (dir->count == dir->cap) {
        dir->cap = dir->cap ? dir->cap * 2 : 16;
        dir->items = mem_grow(dir->items, dir->cap * sizeof *dir->items);
    }
    struct entry *e = &dir->items[dir->count++];
    name_copy(e->name, name);
    e->file = f;
}

static void directory_clear(struct directory *dir) {
    while (dir->count > 0)
        file_drop(dir->items[--dir->count].file);
}

static void directory_assign(struct directory *to, const struct directory *from) {
    struct directory old = *to;
    *to = (struct directory){0};
    for (size_t i = 0; i < from->count; i++)
        entry_put(to, from->items[i].name, from->items[i].file);
    directory_clear(&old);
    free(old.items);
}

static void changes_clear(struct crash_io *d) {
    while (d->change_count > 0)
        file_drop(d->changes[--d->change_count].file);
}

static void change_add(struct crash_io *d, const char *from, const char *to, struct file *f) {
    if (d->change_count == d->change_cap) {
        d->change_cap = d->change_cap ? d->change_cap * 2 : 16;
        d->changes = mem_grow(d->changes, d->change_cap * sizeof *d->changes);
    }
    struct change *c = &d->changes[d->change_count++];
    name_copy(c->from, from);
    name_copy(c->to, to);
    c->file = f;
    f->users++;
}

/* A change reached the disk; one that builds on a lost one cannot. */
static void change_apply(struct directory *dir, const struct change *c) {
    if (c->from[0]) {
        const struct entry *e = entry_find(dir, c->from);
        if (!e || e->file != c->file)
            return;
    }
    if (c->to[0])
        entry_put(dir, c->to, c->file);
    if (c->from[0])
        entry_remove(dir, c->from);
}

/* -- life ------------------------------------------------------------------------------------------------ */

struct crash_io *crash_io_new(uint64_t seed) {
    struct crash_io *d = mem_alloc(sizeof *d);
    rng_seed(&d->rng, seed);
    return d;
}

static void handles_close(struct crash_io *d) {
    for (size_t i = 0; i < HANDLES_MAX; i++)
        if (d->handles[i]) {
            file_drop(d->handles[i]);
            d->handles[i] = NULL;
        }
    d->counts.open_files = 0;
}

void crash_io_free(struct crash_io *d) {
    if (!d)
        return;
    handles_close(d);
    changes_clear(d);
    directory_clear(&d->now);
    directory_clear(&d->durable);
    free(d->now.items);
    free(d->durable.items);
    free(d->changes);
    free(d);
}

/* Copies a directory's files once each: `durable` may share files with `now`, or hold ones that are gone from it. */
struct crash_io *crash_io_copy(const struct crash_io *d) {
    struct crash_io *c = crash_io_new(0);
    c->rng = d->rng;
    c->capacity = d->capacity;
    for (size_t i = 0; i < d->now.count; i++)
        entry_put(&c->now, d->now.items[i].name, file_copy(d->now.items[i].file));
    for (size_t i = 0; i < d->durable.count; i++) {
        struct file *same = NULL;
        for (size_t k = 0; k < d->now.count && !same; k++)
            if (d->now.items[k].file == d->durable.items[i].file)
                same = entry_find(&c->now, d->now.items[k].name)->file;
        entry_put(&c->durable, d->durable.items[i].name,
                  same ? same : file_copy(d->durable.items[i].file));
    }
    for (size_t i = 0; i < d->change_count; i++) {
        const struct change *e = &d->changes[i];
        const struct entry *found = entry_find(&c->now, e->to);
        if (!found)
            found = entry_find(&c->durable, e->from);
        if (found)
            change_add(c, e->from, e->to, found->file);
    }
    return c;
}

void crash_io_reseed(struct crash_io *d, uint64_t seed) {
    rng_seed(&d->rng, seed);
}

void crash_io_die_in(struct crash_io *d, unsigned n) {
    d->die_in = n;
}

bool crash_io_is_dead(const struct crash_io *d) {
    return d->dead;
}

/* Only what was being written: a disk does not touch its neighbours in the sector. */
static void garble_one_sector(struct crash_io *d) {
    for (size_t i = 0; i < d->now.count; i++) {
        struct file *f = d->now.items[i].file;
        for (size_t s = 0; f->now && s < sectors_of(f->size); s++)
            if ((f->dirty[s / 64] >> s % 64 & 1) && rng_below(&d->rng, 4) == 0) {
                for (size_t k = s * CRASH_SECTOR; k < (size_t)f->size && k < (s + 1) * CRASH_SECTOR;
                     k++)
                    if (f->durable[k] != f->now[k])
                        f->durable[k] = f->now[k] = (uint8_t)rng_u64(&d->rng);
                f->dirty[s / 64] &= ~(UINT64_C(1) << s % 64);
                return;
            }
    }
}

static void lose_power(struct crash_io *d) {
    void (*const fates[])(struct crash_io *, struct file *, size_t) = {sector_lose, sector_sync,
                                                                       sector_toss, sector_toss};
    if (rng_below(&d->rng, 4) == 0)
        garble_one_sector(d);
    uint64_t sectors = rng_below(&d->rng, 4), entries = rng_below(&d->rng, 4);
    for (size_t i = 0; i < d->change_count; i++)
        if (entries == 1 || (entries > 1 && rng_u64(&d->rng) & 1))
            change_apply(&d->durable, &d->changes[i]);
    directory_assign(&d->now, &d->durable);
    for (size_t i = 0; i < d->now.count; i++) {
        struct file *f = d->now.items[i].file;
        each_dirty(d, f, fates[sectors]);
        if (f->now)
            memcpy(f->now, f->durable, (size_t)f->size);
    }
    changes_clear(d);
}

void crash_io_restart(struct crash_io *d, bool power) {
    handles_close(d);
    d->locked = d->dead = false;
    d->die_in = d->fail_times = 0;
    if (power)
        lose_power(d);
}

/* -- faults ------------------------------------------------------------------------------------------------ */

void crash_io_fail(struct crash_io *d, unsigned calls, unsigned countdown, unsigned times,
                   int error) {
    d->fail_calls = calls;
    d->fail_countdown = countdown;
    d->fail_times = times;
    d->fail_error = error;
}

void crash_io_capacity(struct crash_io *d, int64_t bytes) {
    d->capacity = bytes;
}

void crash_io_lie(struct crash_io *d, unsigned one_in) {
    d->lie_one_in = one_in;
}

/* 0, or the error this call shall fail with. *ret_dies: it is the one during which the process ends. */
static int fault(struct crash_io *d, unsigned call, bool *ret_dies) {
    *ret_dies = false;
    if (d->dead)
        return -EIO;
    if (!(call & (CRASH_READ | CRASH_OPEN | CRASH_LIST))) {
        d->counts.changes++;
        if (d->die_in > 0 && --d->die_in == 0) {
            d->dead = *ret_dies = true;
            return -EIO;
        }
    }
    if (d->fail_times == 0 || !(d->fail_calls & call))
        return 0;
    if (d->fail_countdown > 0) {
        d->fail_countdown--;
        return 0;
    }
    d->fail_times--;
    d->counts.faults++;
    return -d->fail_error;
}

/* -- the table ----------------------------------------------------------------------------------------------- */

static int64_t bytes_taken(const struct crash_io *d) {
    int64_t n = 0;
    for (size_t i = 0; i < d->now.count; i++)
        n += d->now.items[i].file->size;
    return n;
}

static int handle_new(struct crash_io *d, struct file *f) {
    for (int i = 0; i < HANDLES_MAX; i++)
        if (!d->handles[i]) {
            d->handles[i] = f;
            f->users++;
            d->counts.open_files++;
            return i;
        }
    return -EMFILE;
}

static void file_make(struct crash_io *d, const char *name, int64_t size) {
    struct file *f = file_new(size);
    entry_put(&d->now, name, f);
    change_add(d, "", name, f);
}

static int io_open(void *ctx, const char *name, bool create, int64_t size) {
    struct crash_io *d = ctx;
    bool dies;
    int e = fault(d, create ? CRASH_CREATE : CRASH_OPEN, &dies);
    struct entry *found = entry_find(&d->now, name);
    if (e < 0) {
        /* The name is there before the space is. */
        if (dies && !found && rng_u64(&d->rng) & 1)
            file_make(d, name, rng_u64(&d->rng) & 1 ? 0 : size);
        return e;
    }
    if (!create)
        return found ? handle_new(d, found->file) : -ENOENT;
    if (found)
        return -EEXIST;
    if (d->capacity && bytes_taken(d) + size > d->capacity)
        return -ENOSPC;
    file_make(d, name, size);
    return handle_new(d, entry_find(&d->now, name)->file);
}

static struct file *file_of(struct crash_io *d, int handle) {
    assert(handle >= 0 && handle < HANDLES_MAX && d->handles[handle]);
    return d->handles[handle];
}

static int io_close(void *ctx, int handle) {
    struct crash_io *d = ctx;
    file_drop(file_of(d, handle));
    d->handles[handle] = NULL;
    d->counts.open_files--;
    return 0;
}

static int io_read(void *ctx, int handle, int64_t offset, void *p, size_t n) {
    struct crash_io *d = ctx;
    bool dies;
    int e = fault(d, CRASH_READ, &dies);
    if (e < 0)
        return e;
    struct file *f = file_of(d, handle);
    if (offset + (int64_t)n > f->size)
        return -EIO;
    if (f->now)
        memcpy(p, f->now + offset, n);
    else
        memset(p, 0, n);
    d->counts.reads++;
    d->counts.bytes_read += n;
    return 0;
}

static int io_write(void *ctx, int handle, int64_t offset, const void *p, size_t n) {
    struct crash_io *d = ctx;
    bool dies;
    int e = fault(d, CRASH_WRITE, &dies);
    if (e < 0) {
        if (!dies && d->dead)
            return e;
        n = (size_t)rng_below(&d->rng, n + 1); /* a failing write may have done a part */
    }
    struct file *f = file_of(d, handle);
    assert(offset + (int64_t)n <= f->size); /* the log never writes behind what it allocated */
    file_fill(f);
    memcpy(f->now + offset, p, n);
    mark_dirty(f, offset, n);
    d->counts.writes++;
    return e;
}

static int io_sync(void *ctx, int handle) {
    struct crash_io *d = ctx;
    bool dies;
    int e = fault(d, CRASH_SYNC, &dies);
    struct file *f = file_of(d, handle);
    if (e < 0) {
        if (!d->dead)
            each_dirty(d, f, sector_forget);
        return e;
    }
    d->counts.syncs++;
    if (d->lie_one_in && rng_below(&d->rng, d->lie_one_in) == 0) {
        d->counts.lies++;
        return 0;
    }
    each_dirty(d, f, sector_sync);
    return 0;
}

static int io_sync_dir(void *ctx) {
    struct crash_io *d = ctx;
    bool dies;
    int e = fault(d, CRASH_SYNC_DIR, &dies);
    if (e < 0)
        return e;
    directory_assign(&d->durable, &d->now);
    changes_clear(d);
    return 0;
}

static int io_remove(void *ctx, const char *name) {
    struct crash_io *d = ctx;
    bool dies;
    int e = fault(d, CRASH_REMOVE, &dies);
    struct entry *found = entry_find(&d->now, name);
    if (e < 0 && !(dies && rng_u64(&d->rng) & 1))
        return e;
    if (!found)
        return -ENOENT;
    change_add(d, name, "", found->file);
    entry_remove(&d->now, name);
    return e;
}

static int io_rename(void *ctx, const char *from, const char *to) {
    struct crash_io *d = ctx;
    bool dies;
    int e = fault(d, CRASH_RENAME, &dies);
    struct entry *found = entry_find(&d->now, from);
    if (e < 0 && !(dies && rng_u64(&d->rng) & 1))
        return e;
    if (!found)
        return -ENOENT;
    struct file *f = found->file;
    change_add(d, from, to, f);
    entry_put(&d->now, to, f);
    entry_remove(&d->now, from);
    return e;
}

static int io_list(void *ctx, void (*f)(void *arg, const char *name, int64_t size), void *arg) {
    struct crash_io *d = ctx;
    bool dies;
    int e = fault(d, CRASH_LIST, &dies);
    if (e < 0)
        return e;
    for (size_t i = 0; i < d->now.count; i++)
        f(arg, d->now.items[i].name, d->now.items[i].file->size);
    return 0;
}

static void io_prefetch(void *ctx, int handle, int64_t offset, int64_t n) {
    (void)ctx, (void)handle, (void)offset, (void)n;
}

static int io_lock(void *ctx) {
    struct crash_io *d = ctx;
    if (d->locked)
        return -EWOULDBLOCK;
    d->locked = true;
    return 0;
}

static void io_unlock(void *ctx) {
    struct crash_io *d = ctx;
    d->locked = false;
}

const struct log_io crash_io_table = {
    .open = io_open,
    .close = io_close,
    .read = io_read,
    .write = io_write,
    .sync = io_sync,
    .sync_dir = io_sync_dir,
    .remove = io_remove,
    .rename = io_rename,
    .list = io_list,
    .prefetch = io_prefetch,
    .lock = io_lock,
    .unlock = io_unlock,
};

/* -- looking and damaging ------------------------------------------------------------------------------------- */

const uint8_t *crash_io_bytes(const struct crash_io *d, const char *name, int64_t *ret_size) {
    const struct entry *e = entry_find(&d->now, name);
    if (!e)
        return NULL;
    *ret_size = e->file->size;
    file_fill(e->file);
    return e->file->now;
}

void crash_io_resize(struct crash_io *d, const char *name, int64_t size) {
    struct file *f = file_new(size);
    const struct entry *e = entry_find(&d->now, name);
    file_fill(f);
    if (e && e->file->now) {
        int64_t n = e->file->size < size ? e->file->size : size;
        memcpy(f->now, e->file->now, (size_t)n);
        memcpy(f->durable, e->file->durable, (size_t)n);
    }
    entry_put(&d->now, name, f);
    entry_put(&d->durable, name, f);
}

void crash_io_poke(struct crash_io *d, const char *name, int64_t offset, const void *p, size_t n) {
    const struct entry *e = entry_find(&d->now, name);
    if (!e || e->file->size < offset + (int64_t)n) {
        crash_io_resize(d, name, offset + (int64_t)n);
        e = entry_find(&d->now, name);
    }
    file_fill(e->file);
    memcpy(e->file->now + offset, p, n);
    memcpy(e->file->durable + offset, p, n);
}

void crash_io_unlink(struct crash_io *d, const char *name) {
    entry_remove(&d->now, name);
    entry_remove(&d->durable, name);
}

struct crash_io_counts crash_io_counts(const struct crash_io *d) {
    struct crash_io_counts c = d->counts;
    c.bytes = bytes_taken(d);
    return c;
}
