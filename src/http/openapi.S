/* src/http/openapi.json as it is; NIXIE_OPENAPI_FILE is given by meson.build. */
    .section .rodata
    .global openapi_bytes
    .hidden openapi_bytes
    .global openapi_bytes_count
    .hidden openapi_bytes_count
openapi_bytes:
    .incbin NIXIE_OPENAPI_FILE
openapi_end:
    .balign 8
openapi_bytes_count:
    .quad openapi_end - openapi_bytes
    .section .note.GNU-stack, "", %progbits
