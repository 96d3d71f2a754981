/* What a process asks of the disk and of the clock, made to fail: for LD_PRELOAD, and still until `fail_writes` or
 * `shift_clock` is called in the process (ctypes). A call counts as a write if it changes something below the folder:
 * bytes, names, sizes, and what is made durable.
 *
 * cc -shared -fPIC -O1 -o system_calls.so system_calls.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { KILLED = -1, COUNTED = 0 };

static char folder[PATH_MAX];
static size_t folder_length;
static int failure;   /* an errno; KILLED ends the process; COUNTED only counts */
static long first;    /* the write that fails */
static int stays;     /* whether all after it fail, too */
static volatile long writes;
static volatile long seconds_ahead;

/* Let the number-th write below a folder fail with an errno, or kill the process; nothing before it does. */
void fail_writes(const char *below, int with, long number, int for_good) {
    writes = 0, failure = with, first = number, stays = for_good;
    snprintf(folder, sizeof folder, "%s", below);
    folder_length = strlen(folder);
}

/* How many writes came since. */
long writes_counted(void) { return writes; }

/* Have every reading of the clock be so many seconds ahead; the uptime stays what it is. */
void shift_clock(long seconds) { seconds_ahead = seconds; }

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int below(const char *path) {
    return folder_length && path && !strncmp(path, folder, folder_length);
}

static int below_at(int at, const char *path) {
    char link[64], full[PATH_MAX * 2];
    if (!folder_length || !path) return 0;
    if (path[0] == '/' || at == AT_FDCWD) return below(path);
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t length = readlink(link, full, PATH_MAX);
    if (length < 0) return 0;
    snprintf(full + length, PATH_MAX, "/%s", path);
    return below(full);
}

static int below_file(int file) {
    return folder_length ? below_at(file, "") : 0;
}

/* Whether this write fails. A killed process does not come back from here. */
static int fails(void) {
    long number = __sync_add_and_fetch(&writes, 1);
    if (failure == COUNTED || number < first || (number > first && !stays)) return 0;
    if (failure == KILLED) kill(getpid(), SIGKILL);
    errno = failure;
    return 1;
}

/* Half of what was to be written is: a disk fills up, and a process dies, amid a write as well. */
static int fails_halfway(int file, const void *bytes, size_t size, off_t at, ssize_t *told) {
    static ssize_t (*really)(int, const void *, size_t, off_t);
    static ssize_t (*really_append)(int, const void *, size_t);
    if (!really) really = dlsym(RTLD_NEXT, "pwrite64"), really_append = dlsym(RTLD_NEXT, "write");
    long number = __sync_add_and_fetch(&writes, 1);
    if (failure == COUNTED || number < first || (number > first && !stays)) return 0;
    size_t half = number == first ? size / 2 : 0;
    if (half) half = at < 0 ? really_append(file, bytes, half) : really(file, bytes, half, at);
    if (failure == KILLED) kill(getpid(), SIGKILL);
    /* As the kernel does: what went in is told, and the next write has the error. */
    if (half && stays) return *told = half, 1;
    errno = failure, *told = -1;
    return 1;
}

ssize_t write(int file, const void *bytes, size_t size) {
    REAL(write);
    ssize_t told;
    if (below_file(file) && fails_halfway(file, bytes, size, -1, &told)) return told;
    return real(file, bytes, size);
}

#define PWRITE(name, offset) \
    ssize_t name(int file, const void *bytes, size_t size, offset at) { \
        REAL(name); \
        ssize_t told; \
        if (below_file(file) && fails_halfway(file, bytes, size, at, &told)) return told; \
        return real(file, bytes, size, at); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define ON_FILE(result, name, parameters, arguments) \
    result name parameters { \
        REAL(name); \
        if (below_file(file) && fails()) return -1; \
        return real arguments; \
    }
ON_FILE(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
ON_FILE(int, fsync, (int file), (file))
ON_FILE(int, fdatasync, (int file), (file))
ON_FILE(int, ftruncate, (int file, off_t size), (file, size))
ON_FILE(int, ftruncate64, (int file, off64_t size), (file, size))

#define ON_PATH(name, path, parameters, arguments) \
    int name parameters { \
        REAL(name); \
        if (below(path) && fails()) return -1; \
        return real arguments; \
    }
ON_PATH(rename, to, (const char *from, const char *to), (from, to))
ON_PATH(link, to, (const char *from, const char *to), (from, to))
ON_PATH(symlink, to, (const char *from, const char *to), (from, to))
ON_PATH(mkdir, path, (const char *path, mode_t mode), (path, mode))

#define AT_PATH(name, at, path, parameters, arguments) \
    int name parameters { \
        REAL(name); \
        if (below_at(at, path) && fails()) return -1; \
        return real arguments; \
    }
AT_PATH(renameat, at, to, (int was, const char *from, int at, const char *to), (was, from, at, to))
AT_PATH(renameat2, at, to, (int was, const char *from, int at, const char *to, unsigned flags), (was, from, at, to, flags))
AT_PATH(linkat, at, to, (int was, const char *from, int at, const char *to, int flags), (was, from, at, to, flags))
AT_PATH(mkdirat, at, path, (int at, const char *path, mode_t mode), (at, path, mode))

/* Opening counts where it may make a file. */
#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (flags & O_CREAT && below(path) && fails()) return -1; \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (flags & O_CREAT && below_at(at, path) && fails()) return -1; \
        return real(at, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

/* the clock */

int clock_gettime(clockid_t clock, struct timespec *told) {
    REAL(clock_gettime);
    int failed = real(clock, told);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) told->tv_sec += seconds_ahead;
    return failed;
}

time_t time(time_t *told) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return told ? *told = now.tv_sec : now.tv_sec;
}

int gettimeofday(struct timeval *told, void *zone) {
    REAL(gettimeofday);
    int failed = real(told, zone);
    if (!failed) told->tv_sec += seconds_ahead;
    return failed;
}
