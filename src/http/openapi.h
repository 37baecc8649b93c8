/* src/http/openapi.json, embedded in the program. Any thread. */
#pragma once

#include "base/bytes.h"

struct span openapi_text(void);
