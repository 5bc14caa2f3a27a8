#define _GNU_SOURCE
#include "code_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sha256.h"

#ifdef __APPLE__
#define st_atim st_atimespec
#define st_mtim st_mtimespec
#define USERS_CACHE "Library/Caches"
#else
#define USERS_CACHE ".cache"
#endif

/* A file holds this, kind/key and a newline, the hash of the content, and the content. The key is in the file as well as
 * in its name, so that one that was copied over another is not taken for it. */
static const char magic[] = "hiprt-code-3\n";
/* Seconds after which the file of a writer that died may go. */
enum { ABANDONED = 3600 };

void hiprt_cache_free(char *memory) { free(memory); }

/* A formatted text, which the caller frees; NULL without memory. */
static char *text_of(const char *format, ...) {
  va_list arguments;
  char *text;
  va_start(arguments, format);
  const int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  return length < 0 ? NULL : text;
}

static void hash_of(const char *data, size_t size, char *out_digits) {
  hiprt_sha256 hash;
  hiprt_sha256_begin(&hash);
  hiprt_sha256_add(&hash, data, size);
  hiprt_sha256_end(&hash, out_digits);
}

char *hiprt_cache_default_folder(void) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (cache && cache[0] == '/') return text_of("%s/hiprt", cache);
  if (!home || !home[0]) {
    const struct passwd *user = getpwuid(getuid());
    home = user ? user->pw_dir : NULL;
  }
  return home && home[0] ? text_of("%s/" USERS_CACHE "/hiprt", home) : NULL;
}

void hiprt_cache_key(uint32_t count, const char *const *texts, const uint64_t *sizes, char *out_key) {
  hiprt_sha256 hash;
  hiprt_sha256_begin(&hash);
  for (uint32_t i = 0; i < count; ++i) hiprt_sha256_field(&hash, texts[i], sizes[i]);
  hiprt_sha256_end(&hash, out_key);
}

static char *path_of(const char *folder, const char *kind, const char *key) {
  return text_of("%s/%s/%.2s/%s", folder, kind, key, key + 2);
}

/* The whole of an open file, `size` bytes; NULL if they cannot be read. */
static char *read_whole(int file, size_t size) {
  char *bytes = malloc(size ? size : 1);
  for (size_t at = 0; bytes && at < size;) {
    const ssize_t n = read(file, bytes + at, size - at);
    if (n <= 0) {
      free(bytes);
      return NULL;
    }
    at += (size_t)n;
  }
  return bytes;
}

/* What the file of an entry begins with; the hash of the content follows. */
static char *head_of(const char *kind, const char *key) { return text_of("%s%s/%s\n", magic, kind, key); }

/* Where the content starts in the bytes of a file; 0 if they are not the whole entry that begins with `head`. */
static size_t content_of(const char *bytes, size_t size, const char *head) {
  char digits[HIPRT_SHA256_DIGITS + 1];
  const size_t length = strlen(head), start = length + HIPRT_SHA256_DIGITS;
  if (size < start || memcmp(bytes, head, length) != 0) return 0;
  hash_of(bytes + start, size - start, digits);
  return memcmp(bytes + length, digits, HIPRT_SHA256_DIGITS) == 0 ? start : 0;
}

char *hiprt_cache_load(const char *folder, const char *kind, const char *key, uint64_t *out_size) {
  char *path = path_of(folder, kind, key), *bytes = NULL;
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  free(path);
  if (file < 0) return NULL;
  char *head = head_of(kind, key);
  struct stat status;
  /* The lock tells whoever trims the folder that the file is in use. */
  if (flock(file, LOCK_SH) == 0 && fstat(file, &status) == 0) bytes = read_whole(file, (size_t)status.st_size);
  const size_t start = bytes && head ? content_of(bytes, (size_t)status.st_size, head) : 0;
  if (start) {
    *out_size = (uint64_t)status.st_size - start;
    memmove(bytes, bytes + start, *out_size);
    futimens(file, NULL);
  } else {
    free(bytes);
    bytes = NULL;
  }
  free(head);
  close(file);
  return bytes;
}

/* Make the folders that lead to a file. Returns 0 or errno. */
static int make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    const int status = mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : errno;
    *slash = '/';
    if (status) return status;
  }
  return 0;
}

static int write_all(int file, const char *bytes, size_t size) {
  while (size) {
    const ssize_t n = write(file, bytes, size);
    if (n < 0) return errno;
    bytes += n, size -= (size_t)n;
  }
  return 0;
}

static int write_entry(const char *path, const char *head, const char *content, size_t size) {
  char digits[HIPRT_SHA256_DIGITS + 1];
  hash_of(content, size, digits);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int status = write_all(file, head, strlen(head));
  if (!status) status = write_all(file, digits, HIPRT_SHA256_DIGITS);
  if (!status) status = write_all(file, content, size);
  if (close(file) != 0 && !status) status = errno;
  return status;
}

typedef struct {
  int64_t used; /* nanoseconds: the last use, as far as the file system keeps it */
  uint64_t size;
  char *path;
} cached_file;

typedef struct {
  cached_file *files;
  size_t count, capacity;
} listing;

static int64_t nanoseconds(struct timespec time) { return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec; }

/* Add the files of a folder and of the folders in it. What goes away meanwhile is left out. */
static void list_folder(const char *folder, listing *out) {
  DIR *open_folder = opendir(folder);
  if (!open_folder) return;
  for (struct dirent *entry; (entry = readdir(open_folder));) {
    struct stat status;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char *path = text_of("%s/%s", folder, entry->d_name);
    if (!path || lstat(path, &status) != 0) {
      free(path);
      continue;
    }
    if (S_ISDIR(status.st_mode)) list_folder(path, out);
    if (S_ISREG(status.st_mode) && out->count == out->capacity) {
      const size_t capacity = out->capacity ? 2 * out->capacity : 64;
      cached_file *files = realloc(out->files, capacity * sizeof *files);
      if (files) out->files = files, out->capacity = capacity;
    }
    if (S_ISREG(status.st_mode) && out->count < out->capacity) {
      const int64_t read = nanoseconds(status.st_atim), written = nanoseconds(status.st_mtim);
      out->files[out->count++] = (cached_file){read > written ? read : written, (uint64_t)status.st_size, path};
    } else {
      free(path);
    }
  }
  closedir(open_folder);
}

static uint64_t bytes_of(const listing *list) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < list->count; ++i) bytes += list->files[i].size;
  return bytes;
}

static void free_listing(listing *list) {
  for (size_t i = 0; i < list->count; ++i) free(list->files[i].path);
  free(list->files);
}

void hiprt_cache_measure(const char *folder, uint64_t *out_files, uint64_t *out_bytes) {
  listing list = {0};
  list_folder(folder, &list);
  *out_files = list.count, *out_bytes = bytes_of(&list);
  free_listing(&list);
}

static int by_use(const void *left, const void *right) {
  const int64_t a = ((const cached_file *)left)->used, b = ((const cached_file *)right)->used;
  return (a > b) - (a < b);
}

/* Whether a process may be writing a file: it does not have its entry's name yet, and is not from one that died. */
static int is_written(const cached_file *file) {
  return strchr(strrchr(file->path, '/'), '.') && (int64_t)time(NULL) - file->used / 1000000000 < ABANDONED;
}

/* Remove a file unless a process has it open. Returns whether it is gone. */
static int remove_unused(const char *path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  const int is_gone = flock(file, LOCK_EX | LOCK_NB) == 0 && unlink(path) == 0;
  close(file);
  return is_gone;
}

/* Returns the bytes that are left. */
static uint64_t trim(const char *folder, uint64_t limit, uint64_t *out_files, uint64_t *out_bytes) {
  listing list = {0};
  list_folder(folder, &list);
  const uint64_t held = bytes_of(&list), excess = held > limit ? held - limit : 0;
  *out_files = *out_bytes = 0;
  if (excess) qsort(list.files, list.count, sizeof *list.files, by_use);
  for (size_t i = 0; i < list.count && *out_bytes < excess; ++i) {
    const cached_file *file = &list.files[i];
    if (is_written(file) || !remove_unused(file->path)) continue;
    ++*out_files, *out_bytes += file->size;
  }
  free_listing(&list);
  return held - *out_bytes;
}

void hiprt_cache_trim(const char *folder, uint64_t limit, uint64_t *out_files, uint64_t *out_bytes) {
  trim(folder, limit, out_files, out_bytes);
}

/* Trim the folder after `stored` more bytes. To look at each file takes longer the more there are, so a process that has
 * found room looks again when it has filled an eighth of that: eight processes at once still keep the bound. */
static void keep_bound(const char *folder, uint64_t limit, uint64_t stored) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static char last[PATH_MAX];
  static uint64_t last_limit, room;
  enum { OVERHEAD = 4096 }; /* of a file, at most: its head and the folder that it is in */
  if (pthread_mutex_trylock(&lock) != 0) return; /* another thread looks, or did when this process was forked */
  if (limit != last_limit || strcmp(folder, last) != 0 || room < stored + OVERHEAD) {
    uint64_t files, bytes;
    const uint64_t held = trim(folder, limit, &files, &bytes);
    room = held < limit ? (limit - held) / 8 : 0, last_limit = limit;
    snprintf(last, sizeof last, "%s", folder);
  } else {
    room -= stored + OVERHEAD;
  }
  pthread_mutex_unlock(&lock);
}

int hiprt_cache_store(const char *folder, const char *kind, const char *key, const char *content, uint64_t size,
                      uint64_t limit) {
  static atomic_uint serial;
  char *path = path_of(folder, kind, key), *head = head_of(kind, key);
  char *fresh = path && head ? text_of("%s.%d.%u", path, (int)getpid(), atomic_fetch_add(&serial, 1)) : NULL;
  int status = fresh ? make_folders(path) : ENOMEM;
  if (!status) {
    status = write_entry(fresh, head, content, size);
    if (!status && rename(fresh, path) != 0) status = errno;
    if (status) unlink(fresh);
  }
  free(fresh);
  free(head);
  free(path);
  if (!status && limit) keep_bound(folder, limit, size);
  return status;
}
