/* A C program that is linked with RocksDB and the volumes statically: linked URI put|get. */
#include <gimbal_rocksdb.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void Demand(char* error, const char* step) {
  if (error != NULL) {
    fprintf(stderr, "%s: %s\n", step, error);
    exit(1);
  }
}

int main(int count, char** arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: linked URI put|get\n");
    return 2;
  }
  char* error = NULL;
  rocksdb_env_t* env = gimbal_rocksdb_env(arguments[1], &error);
  Demand(error, "env");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_env(options, env);
  rocksdb_t* db = rocksdb_open(options, "/linked", &error);
  Demand(error, "open");
  if (strcmp(arguments[2], "put") == 0) {
    rocksdb_writeoptions_t* sync = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(sync, 1);
    rocksdb_put(db, sync, "key", 3, "value", 5, &error);
    Demand(error, "put");
    rocksdb_writeoptions_destroy(sync);
  } else {
    rocksdb_readoptions_t* read = rocksdb_readoptions_create();
    size_t length = 0;
    char* value = rocksdb_get(db, read, "key", 3, &length, &error);
    Demand(error, "get");
    printf("%.*s\n", value == NULL ? 7 : (int)length, value == NULL ? "nothing" : value);
    rocksdb_free(value);
    rocksdb_readoptions_destroy(read);
  }
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_env_destroy(env);
  return 0;
}
