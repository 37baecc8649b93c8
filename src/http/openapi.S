/* src/http/openapi.json as it is; NIXIE_OPENAPI_FILE is given by meson.build. */
    .section .rodata
    .global openapi_begin
    .hidden openapi_begin
    .global openapi_end
    .hidden openapi_end
openapi_begin:
    .incbin NIXIE_OPENAPI_FILE
openapi_end:
    .section .note.GNU-stack, "", %progbits
