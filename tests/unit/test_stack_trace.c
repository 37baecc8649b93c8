/* Stack traces as they come from the runtimes: what is taken from them, and what a new build or
 * another machine does not change. */
#include "check.h"
#include "model/fingerprint.h"

#include <stdlib.h>

static char shown[8192];

static const char *frames(struct span detail) {
    struct buf out;
    buf_init(&out, sizeof shown - 1);
    detail_frames(detail, &out);
    snprintf(shown, sizeof shown, "%.*s", (int)out.n, out.n > 0 ? (const char *)out.p : "");
    buf_release(&out);
    return shown;
}

#define CHECK_FRAMES(detail, expected)                                                             \
    do {                                                                                           \
        bool check_is_so = strcmp(frames(span_str(detail)), expected) == 0;                        \
        if (!check_is_so)                                                                          \
            printf("# got:\n%s# not:\n%s", shown, expected);                                       \
        CHECK(check_is_so);                                                                        \
    } while (0)

static void python(void) {
    CHECK_FRAMES(
        "Traceback (most recent call last):\n"
        "  File \"/app/releases/20240115/worker.py\", line 88, in run\n"
        "    self.handle(message)\n"
        "  File \"/app/releases/20240115/orders/handler.py\", line 42, in handle\n"
        "    order = parse(message.payload)\n"
        "            ^^^^^^^^^^^^^^^^^^^^^^\n"
        "  File \"/app/venv/lib/python3.11/site-packages/acme/parse.py\", line 7, in parse\n"
        "    return json.loads(text)\n"
        "  File \"/usr/lib/python3.11/json/__init__.py\", line 346, in loads\n"
        "    return _default_decoder.decode(s)\n"
        "  File \"/usr/lib/python3.11/json/decoder.py\", line 355, in raw_decode\n"
        "    raise JSONDecodeError(\"Expecting value\", s, err.value) from None\n"
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n",
        "parse parse.py\nhandle handler.py\nrun worker.py\n");
    /* The same after a deployment, with another interpreter. */
    CHECK_FRAMES(
        "Traceback (most recent call last):\r\n"
        "  File \"/srv/20240302/worker.py\", line 90, in run\r\n"
        "  File \"/srv/20240302/orders/handler.py\", line 45, in handle\r\n"
        "  File \"/srv/v/lib/python3.12/site-packages/acme/parse.py\", line 9, in parse\r\n"
        "  File \"/usr/local/lib/python3.12/json/__init__.py\", line 339, in loads\r\n"
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\r\n",
        "parse parse.py\nhandle handler.py\nrun worker.py\n");
    CHECK_FRAMES("Traceback (most recent call last):\n"
                 "  File \"C:\\app\\worker.py\", line 3, in <module>\n"
                 "  File \"C:\\Python311\\Lib\\json\\decoder.py\", line 355, in raw_decode\n"
                 "ValueError: x\n",
                 "<module> worker.py\n");
    /* Nothing but the runtime. */
    CHECK_FRAMES("Traceback (most recent call last):\n"
                 "  File \"<frozen runpy>\", line 198, in _run_module_as_main\n"
                 "  File \"/usr/lib/python3.11/json/decoder.py\", line 355, in raw_decode\n"
                 "ValueError: x\n",
                 "raw_decode decoder.py\n_run_module_as_main <frozen runpy>\n");
}

static void python_takes_the_innermost_five(void) {
    struct buf trace;
    buf_init(&trace, 1 << 16);
    buf_add_str(&trace, "Traceback (most recent call last):\n");
    for (int i = 0; i < 200; i++)
        buf_printf(&trace, "  File \"/app/m.py\", line %d, in step_%d\n    go_on(%d)\n", i, i, i);
    buf_add_str(&trace, "ValueError: x\n");
    CHECK(trace.n > FINGERPRINT_DETAIL_MAX);
    CHECK(strcmp(frames(buf_span(&trace)), "step_199 m.py\nstep_198 m.py\nstep_197 m.py\n"
                                           "step_196 m.py\nstep_195 m.py\n") == 0);
    buf_release(&trace);
}

static void python_chains(void) {
    /* The cause is what broke. */
    CHECK_FRAMES("Traceback (most recent call last):\n"
                 "  File \"/app/db.py\", line 3, in connect\n"
                 "ConnectionRefusedError: [Errno 111] Connection refused\n"
                 "\n"
                 "The above exception was the direct cause of the following exception:\n"
                 "\n"
                 "Traceback (most recent call last):\n"
                 "  File \"/app/worker.py\", line 9, in run\n"
                 "AppError: no database\n",
                 "connect db.py\n");
    /* One that was being handled is not. */
    CHECK_FRAMES("Traceback (most recent call last):\n"
                 "  File \"/app/cache.py\", line 3, in get\n"
                 "KeyError: 'x'\n"
                 "\n"
                 "During handling of the above exception, another exception occurred:\n"
                 "\n"
                 "Traceback (most recent call last):\n"
                 "  File \"/app/worker.py\", line 9, in run\n"
                 "  File \"/app/worker.py\", line 12, in load\n"
                 "OSError: disk\n",
                 "load worker.py\nrun worker.py\n");
    CHECK_FRAMES("  + Exception Group Traceback (most recent call last):\n"
                 "  |   File \"/app/main.py\", line 5, in main\n"
                 "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
                 "  +-+---------------- 1 ----------------\n"
                 "    | Traceback (most recent call last):\n"
                 "    |   File \"/app/task.py\", line 7, in task\n"
                 "    | ValueError: 7\n"
                 "    +------------------------------------\n",
                 "task task.py\n");
}

static void java(void) {
    CHECK_FRAMES(
        "java.lang.IllegalStateException: could not process order 17\n"
        "\tat com.acme.OrderService.process(OrderService.java:42)\n"
        "\tat com.acme.Worker.run(Worker.java:10)\n"
        "\tat java.base/java.util.concurrent.ThreadPoolExecutor.runWorker("
        "ThreadPoolExecutor.java:1136)\n"
        "Caused by: java.sql.SQLException: deadlock\n"
        "\tat org.postgresql.core.v3.QueryExecutorImpl.execute(QueryExecutorImpl.java:35)\n"
        "\tat app//com.acme.Orders.lambda$save$0(Orders.java:77)\n"
        "\tat com.acme.Orders$1.save(Orders.java:70)\n"
        "\tat com.acme.Orders$$Lambda$123/0x0000000800c8.run(Unknown Source)\n"
        "\tat com.acme.Repo$$EnhancerBySpringCGLIB$$1a2b3c4.save(<generated>)\n"
        "\tat com.acme.OrderService.process(OrderService.java:40)\n"
        "\t... 12 more\n",
        "org.postgresql.core.v3.QueryExecutorImpl.execute\n"
        "com.acme.Orders.lambda$save$\n"
        "com.acme.Orders$.save\n"
        "com.acme.Orders$$Lambda$/.run\n"
        "com.acme.Repo$$EnhancerBySpringCGLIB$$.save\n");
    CHECK_FRAMES(
        "java.lang.IllegalStateException: could not process order 99\n"
        "\tat com.acme.OrderService.process(OrderService.java:52)\n"
        "Caused by: java.sql.SQLException: deadlock\n"
        "\tat org.postgresql.core.v3.QueryExecutorImpl.execute(QueryExecutorImpl.java:36)\n"
        "\tat app//com.acme.Orders.lambda$save$2(Orders.java:78)\n"
        "\tat com.acme.Orders$3.save(Orders.java:71)\n"
        "\tat com.acme.Orders$$Lambda$7/0x00000008abcd.run(Unknown Source)\n"
        "\tat com.acme.Repo$$EnhancerBySpringCGLIB$$9f8e7d6.save(<generated>)\n",
        "org.postgresql.core.v3.QueryExecutorImpl.execute\n"
        "com.acme.Orders.lambda$save$\n"
        "com.acme.Orders$.save\n"
        "com.acme.Orders$$Lambda$/.run\n"
        "com.acme.Repo$$EnhancerBySpringCGLIB$$.save\n");
}

static void java_causes(void) {
    /* All of the root cause is the runtime's: who called it tells more. */
    CHECK_FRAMES("com.acme.AppException: x\n"
                 "\tat com.acme.Net.call(Net.java:3)\n"
                 "Caused by: java.net.ConnectException: Connection refused\n"
                 "\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)\n"
                 "\tat java.base/java.net.Socket.connect(Socket.java:633)\n"
                 "\t... 3 more\n",
                 "com.acme.Net.call\n");
    CHECK_FRAMES("java.net.ConnectException: Connection refused\n"
                 "\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)\n"
                 "\tat java.base/java.net.Socket.connect(Socket.java:633)\n",
                 "sun.nio.ch.Net.pollConnect\njava.net.Socket.connect\n");
    /* What was suppressed, and its causes, did not break it. */
    CHECK_FRAMES("com.acme.AppException: x\n"
                 "\tat com.acme.A.a(A.java:3)\n"
                 "\tSuppressed: java.io.IOException: close\n"
                 "\t\tat com.acme.S.close(S.java:3)\n"
                 "\tCaused by: com.acme.E: y\n"
                 "\t\tat com.acme.S.inner(S.java:4)\n"
                 "Caused by: com.acme.F: z\n"
                 "\tat com.acme.B.b(B.java:3)\n",
                 "com.acme.B.b\n");
    /* Kotlin. */
    CHECK_FRAMES("kotlin.KotlinNullPointerException\n"
                 "\tat kotlin.collections.CollectionsKt.first(Collections.kt:1)\n"
                 "\tat com.acme.MainKt$main$1.invokeSuspend(Main.kt:12)\n"
                 "\tat kotlinx.coroutines.DispatchedTask.run(DispatchedTask.kt:106)\n",
                 "com.acme.MainKt$main$.invokeSuspend\n");
    /* The root cause first, as some loggers write it. */
    CHECK_FRAMES("com.acme.F: z\n\tat com.acme.B.b(B.java:3)\n"
                 "Wrapped by: com.acme.E: y\n\tat com.acme.A.a(A.java:3)\n",
                 "com.acme.B.b\n");
    /* How deep it went is not the cause. */
    CHECK_FRAMES("java.lang.StackOverflowError\n\tat com.acme.T.walk(T.java:3)\n"
                 "\tat com.acme.T.walk(T.java:3)\n\tat com.acme.T.walk(T.java:3)\n"
                 "\tat com.acme.T.start(T.java:1)\n",
                 "com.acme.T.walk\ncom.acme.T.start\n");
}

static void node(void) {
    CHECK_FRAMES(
        "TypeError: Cannot read properties of undefined (reading 'id')\n"
        "    at Array.map (<anonymous>)\n"
        "    at process (/app/src/orders.js:10:5)\n"
        "    at async Worker.handle [as run] (file:///app/src/worker.mjs:3:1)\n"
        "    at new Client (/app/node_modules/pg/lib/client.js:7:12)\n"
        "    at /app/dist/main.3f2a1b9c.js:1:77120\n"
        "    at Object.<anonymous> (C:\\app\\index.js:1:1)\n"
        "    at Module._compile (node:internal/modules/cjs/loader:1105:14)\n"
        "    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)\n"
        "    at async Promise.all (index 0)\n",
        "process orders.js\nWorker.handle worker.mjs\nnew Client client.js\n"
        " main..js\nObject.<anonymous> index.js\n");
    CHECK_FRAMES("Error: outer\n"
                 "    at handle (/app/worker.js:9:11) {\n"
                 "  [cause]: Error: inner\n"
                 "      at connect (/app/db.js:4:9)\n"
                 "      at node:internal/x:1:1 {\n",
                 "connect db.js\n");
    CHECK_FRAMES("Error: x\n"
                 "    at handle (/app/worker.js:9:11)\n"
                 "    at run (/app/worker.js:2:3) {\n"
                 "  code: 'E_STOCK'\n"
                 "}\n",
                 "handle worker.js\nrun worker.js\n");
    CHECK_FRAMES("Error: x\n"
                 "    at node:internal/main/run_main_module:23:47\n"
                 "    at Socket.emit (node:events:513:28)\n",
                 " run_main_module\nSocket.emit node:events\n");
}

static void go(void) {
    const char *expected = "main.process\nmain.(*Worker).Handle\nmain.main.func\n";
    CHECK_FRAMES("panic: runtime error: invalid memory address or nil pointer dereference\n"
                 "[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x45e1f2]\n"
                 "\n"
                 "goroutine 7 [running]:\n"
                 "main.process(0xc000010000, {0x4a5b6c, 0x3})\n"
                 "\t/app/main.go:42 +0x1d\n"
                 "main.(*Worker).Handle(...)\n"
                 "\t/app/worker.go:10\n"
                 "main.main.func1()\n"
                 "\t/app/main.go:12 +0x2a\n"
                 "created by main.main in goroutine 1\n"
                 "\t/app/main.go:11 +0x25\n"
                 "\n"
                 "goroutine 1 [chan receive]:\n"
                 "main.main()\n"
                 "\t/app/main.go:20 +0x99\n",
                 expected);
    /* Recovered: what is above the panic is who caught it. */
    CHECK_FRAMES("goroutine 18 [running]:\n"
                 "runtime/debug.Stack()\n"
                 "\t/usr/local/go/src/runtime/debug/stack.go:24 +0x5e\n"
                 "main.guard.func1()\n"
                 "\t/build/guard.go:9 +0x3a\n"
                 "panic({0x47a6c0?, 0x4b8f10?})\n"
                 "\t/usr/local/go/src/runtime/panic.go:914 +0x21f\n"
                 "runtime.panicmem()\n"
                 "\t/usr/local/go/src/runtime/panic.go:260 +0x1\n"
                 "main.process(0xc0000a4000, {0x51b6c, 0x3})\n"
                 "\t/build/main.go:44 +0x1d\n"
                 "main.(*Worker).Handle(...)\n"
                 "\t/build/worker.go:11\n"
                 "main.main.func2()\n"
                 "\t/build/main.go:13 +0x2a\n",
                 expected);
    CHECK_FRAMES("no rows\n"
                 "github.com/acme/orders/v2.Load\n"
                 "\t/app/orders/load.go:7\n"
                 "net/http.HandlerFunc.ServeHTTP\n"
                 "\t/usr/local/go/src/net/http/server.go:2136\n",
                 "github.com/acme/orders/v2.Load\n");
}

static void ruby(void) {
    CHECK_FRAMES("app/models/order.rb:42:in `process': undefined method `total' for nil:NilClass "
                 "(NoMethodError)\n"
                 "\tfrom app/workers/order_worker.rb:10:in `block in perform'\n"
                 "\tfrom /usr/lib/ruby/3.0.0/monitor.rb:202:in `synchronize'\n"
                 "\tfrom /usr/lib/ruby/gems/3.0.0/gems/sidekiq-6.5.1/lib/sidekiq/processor.rb:7:in "
                 "`run'\n"
                 "\tfrom <internal:kernel>:187:in `loop'\n",
                 "process order.rb\nblock in perform order_worker.rb\nrun processor.rb\n");
    /* An exception's backtrace joined; another version, with its quotes. */
    CHECK_FRAMES("/srv/app/models/order.rb:45:in 'Order#process'\n"
                 "/srv/app/workers/order_worker.rb:11:in 'block in OrderWorker#perform'\n",
                 "Order#process order.rb\nblock in OrderWorker#perform order_worker.rb\n");
    CHECK_FRAMES("a.rb:5:in `rescue in foo': outer (RuntimeError)\n"
                 "\tfrom a.rb:2:in `foo'\n"
                 "\tfrom a.rb:9:in `<main>'\n"
                 "b.rb:3:in `divide': divided by 0 (ZeroDivisionError)\n"
                 "\tfrom a.rb:3:in `foo'\n"
                 "\tfrom a.rb:9:in `<main>'\n",
                 "divide b.rb\nfoo a.rb\n<main> a.rb\n");
}

static void php(void) {
    CHECK_FRAMES(
        "PHP Fatal error:  Uncaught App\\OrderException: bad in /app/src/Orders.php:42\n"
        "Stack trace:\n"
        "#0 /app/src/Worker.php(10): App\\Orders->process(Object(App\\Message), 7)\n"
        "#1 [internal function]: App\\Worker->App\\{closure}('...')\n"
        "#2 /app/src/Worker.php(30): array_map(Object(Closure), Array)\n"
        "#3 /app/bin/worker(7): App\\Worker::run()\n"
        "#4 {main}\n"
        "  thrown in /app/src/Orders.php on line 42\n",
        "App\\Orders->process Worker.php\narray_map Worker.php\nApp\\Worker::run worker\n");
    CHECK_FRAMES("PDOException: inner in /app/Db.php:3\n"
                 "Stack trace:\n"
                 "#0 /app/Db.php(3): PDO->query('SELECT 1')\n"
                 "#1 {main}\n"
                 "\n"
                 "Next RuntimeException: outer in /app/Repo.php:9\n"
                 "Stack trace:\n"
                 "#0 /app/Repo.php(9): App\\Repo->load(7)\n"
                 "#1 {main}\n",
                 "PDO->query Db.php\n");
}

static void dotnet(void) {
    const char *expected = "Acme.Orders.OrderService.<ProcessAsync>d__.MoveNext\n"
                           "Acme.Orders.Worker.<>c__DisplayClass_.<Run>b__\n"
                           "Acme.Orders.Worker.Handle\n";
    CHECK_FRAMES("System.InvalidOperationException: Sequence contains no elements\n"
                 "   at System.Linq.ThrowHelper.ThrowNoElementsException()\n"
                 "   at System.Linq.Enumerable.First[TSource](IEnumerable`1 source)\n"
                 "   at Acme.Orders.OrderService.<ProcessAsync>d__5.MoveNext() in "
                 "/src/OrderService.cs:line 42\n"
                 "--- End of stack trace from previous location where exception was thrown ---\n"
                 "   at Acme.Orders.Worker.<>c__DisplayClass3_0.<Run>b__0(Int32 id)\n"
                 "   at Acme.Orders.Worker.Handle(String a, Int32 b) in /src/Worker.cs:line 7\n",
                 expected);
    /* The inner exception comes first. */
    CHECK_FRAMES("Acme.AppException: outer\r\n"
                 " ---> System.InvalidOperationException: inner\r\n"
                 "   at Acme.Orders.OrderService.<ProcessAsync>d__7.MoveNext() in "
                 "C:\\src\\OrderService.cs:line 43\r\n"
                 "   at Acme.Orders.Worker.<>c__DisplayClass4_1.<Run>b__2(Int32 id)\r\n"
                 "   at Acme.Orders.Worker.Handle(String a, Int32 b)\r\n"
                 "   --- End of inner exception stack trace ---\r\n"
                 "   at Acme.Program.Main(String[] args) in C:\\src\\Program.cs:line 3\r\n",
                 expected);
}

static void rust(void) {
    const char *expected = "orders::process\n<orders::Worker as orders::Run>::run\norders::main\n";
    CHECK_FRAMES("thread 'main' panicked at src/main.rs:4:5:\n"
                 "index out of bounds: the len is 3 but the index is 7\n"
                 "stack backtrace:\n"
                 "   0: rust_begin_unwind\n"
                 "             at /rustc/82e1608dfa6e0b5569232559e3d385fea5a93112/library/std/src/"
                 "panicking.rs:645:5\n"
                 "   1: core::panicking::panic_fmt\n"
                 "             at /rustc/82e1608dfa6e0b5569232559e3d385fea5a93112/library/core/src/"
                 "panicking.rs:72:14\n"
                 "   2: orders::process\n"
                 "             at ./src/main.rs:4:5\n"
                 "   3: <orders::Worker as orders::Run>::run\n"
                 "             at ./src/worker.rs:9:9\n"
                 "   4: orders::main\n"
                 "             at ./src/main.rs:12:5\n"
                 "   5: core::ops::function::FnOnce::call_once\n"
                 "note: Some details are omitted\n",
                 expected);
    CHECK_FRAMES("Error: no orders\n"
                 "\n"
                 "Caused by:\n"
                 "    0: reading the file\n"
                 "    1: No such file or directory (os error 2)\n"
                 "\n"
                 "Stack backtrace:\n"
                 "   0: anyhow::error::<impl anyhow::Error>::msg\n"
                 "   1: orders::process::h0a1b2c3d4e5f6071\n"
                 "   2: 0x55d0c8aa - <orders::Worker as orders::Run>::run::hffeeddccbbaa9988\n"
                 "   3: orders::main\n"
                 "   4: std::sys_common::backtrace::__rust_begin_short_backtrace\n"
                 "   5: main\n"
                 "   6: __libc_start_main\n"
                 "   7: _start\n",
                 expected);
}

static void what_is_no_trace_has_no_frames(void) {
    static const char *const details[] = {
        "",
        "\n\n\n",
        "the order was refused (it has no items)",
        "at home (kitchen)\nat last.\nat",
        "Caused by: bad luck",
        "Traceback (most recent call last):\n",
        "# a title\n#1 is good\n#2 worse",
        "1: one\n2: two",
        "File \"a.txt\" is gone",
        "main.go: the file",
        "see a.rb:x:in `y'",
        "{\"error\": \"timeout\", \"at\": \"2024-01-15T12:34:56Z\"}",
        "at 12:34:56 (UTC) we met",
    };
    for (size_t i = 0; i < sizeof details / sizeof *details; i++)
        CHECK_FRAMES(details[i], "");
    CHECK(strcmp(frames(span_of(NULL, 0)), "") == 0);
}

static void other_functions_are_other_frames(void) {
    char first[8192];
    snprintf(first, sizeof first, "%s", frames(span_str("X\n\tat a.B.one(B.java:3)\n")));
    CHECK(strcmp(first, frames(span_str("X\n\tat a.B.two(B.java:3)\n"))) != 0);
    CHECK(strcmp(first, frames(span_str("X\n\tat a.C.one(B.java:3)\n"))) != 0);
    CHECK(strcmp(first, frames(span_str("X\n\tat a.B.one(B.java:77)\n"))) == 0);
    /* Digits are part of a name where people wrote it. */
    CHECK_FRAMES("X\n  at step_1 (/a/b.js:1:1)\n  at step2 (/a/b2.js:1:1)\n",
                 "step_1 b.js\nstep2 b2.js\n");
    CHECK_FRAMES("X\n  at a.B$Step1.run(B.java:3)\n  at a.B.func1(B.java:3)\n",
                 "a.B$Step1.run\na.B.func1\n");
}

static void names_are_cut(void) {
    char name[1000], detail[2000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    snprintf(detail, sizeof detail, "  at %s (/a/%.500s:1:1)\n", name, name);
    CHECK_EQ(strlen(frames(span_str(detail))), 160 + 1 + 64 + 1);
}

int main(void) {
    RUN(python);
    RUN(python_takes_the_innermost_five);
    RUN(python_chains);
    RUN(java);
    RUN(java_causes);
    RUN(node);
    RUN(go);
    RUN(ruby);
    RUN(php);
    RUN(dotnet);
    RUN(rust);
    RUN(what_is_no_trace_has_no_frames);
    RUN(other_functions_are_other_frames);
    RUN(names_are_cut);
    return check_done();
}
