#include "cli/cli.h"
#include "server/serve.h"

#include <string.h>

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        return serve_main(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "log") == 0)
        return log_main(argc, argv);
    return cli_main(argc, argv);
}
