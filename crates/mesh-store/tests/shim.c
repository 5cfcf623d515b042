/* Stands between a process and the C library (LD_PRELOAD) and writes down, in order, what happens to a store's files:
 *
 *   W path    bytes are about to be written       S path    an fsync or fdatasync has succeeded
 *   A         "ack ..." is about to be said on standard error
 *
 * While the file "$SHIM_FAULT.enospc" exists, writes fail as on a full disk; while "$SHIM_FAULT.eio" does, syncs fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The path of a store's file open as `fd`, or NULL. A directory is none: syncing one makes no content durable. */
static const char *store_file(int fd, char path[4096]) {
    int kept = errno;
    char link[64];
    struct stat found;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, 4095);
    int regular = length > 0 && stat(link, &found) == 0 && S_ISREG(found.st_mode);
    errno = kept;
    if (!regular) return NULL;
    path[length] = 0;
    return strstr(path, "/store.") && !strstr(path, "/store.lock") ? path : NULL;
}

static void note(char what, const char *path) {
    static int log = -1;
    int kept = errno;
    char line[4200];
    if (log < 0) log = open(getenv("SHIM_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int length = snprintf(line, sizeof line, "%c %s\n", what, path);
    if (syscall(SYS_write, log, line, length) != length) abort();
    errno = kept;
}

static int faulty(const char *kind) {
    char path[4200];
    const char *prefix = getenv("SHIM_FAULT");
    int kept = errno;
    if (!prefix) return 0;
    snprintf(path, sizeof path, "%s.%s", prefix, kind);
    int there = access(path, F_OK) == 0;
    errno = kept;
    return there;
}

static int refuses_write(int fd) {
    char path[4096];
    if (!store_file(fd, path)) return 0;
    if (faulty("enospc")) {
        errno = ENOSPC;
        return 1;
    }
    note('W', path);
    return 0;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    if (fd == 2 && length > 4 && memcmp(bytes, "ack ", 4) == 0) note('A', "");
    return refuses_write(fd) ? -1 : syscall(SYS_write, fd, bytes, length);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    return refuses_write(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    return refuses_write(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, length, at);
}

int ftruncate64(int fd, off64_t length) {
    return refuses_write(fd) ? -1 : syscall(SYS_ftruncate, fd, length);
}

static int synced(long number, int fd) {
    char path[4096];
    const char *file = store_file(fd, path);
    if (file && faulty("eio")) {
        errno = EIO;
        return -1;
    }
    int done = syscall(number, fd);
    if (done == 0 && file) note('S', file);
    return done;
}

int fsync(int fd) { return synced(SYS_fsync, fd); }

int fdatasync(int fd) { return synced(SYS_fdatasync, fd); }
