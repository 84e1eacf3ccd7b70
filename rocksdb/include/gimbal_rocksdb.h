/* Volumes for programs that are linked with RocksDB statically, in C and C++ (docs/rocksdb.md). */
#ifndef GIMBAL_ROCKSDB_H
#define GIMBAL_ROCKSDB_H

#ifdef __cplusplus
extern "C" {
#endif

struct rocksdb_env_t;

/* Makes gimbal://... known to RocksDB. Once more does nothing. Ends the program if it was compiled for another version of RocksDB. */
void gimbal_rocksdb_register(void);

/*
 * The Env of a volume, for RocksDB's C interface: gimbal://VOLUME?store=STORE. Mounts the volume; it stays mounted until the process ends.
 * The Env is given back with rocksdb_env_destroy. Null after an error: then *error is its text, and is given back with free.
 */
struct rocksdb_env_t* gimbal_rocksdb_env(const char* uri, char** error);

#ifdef __cplusplus
}
#endif

#endif
