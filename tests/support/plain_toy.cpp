// A stage that does as little as possible, so that its cost is the cost of running any stage: no library beyond libc.
// It copies `template.h5` from its own folder to its output and appends its task's name.
//
//     plain-toy --task FILE      as a stage
//     plain-toy --check          every config is fine
//     plain-toy --copy OUTPUT    the same work for other tools
//
// Under a name that holds "report" its output is a folder with one page.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

int copy_to(const char* output, const char* tail, size_t tail_size) {
  char from[4096];
  const ssize_t count = ::readlink("/proc/self/exe", from, sizeof from - 16);
  if (count <= 0) return 74;
  from[count] = '\0';
  ::strcpy(::strrchr(from, '/') + 1, "template.h5");
  static char bytes[1 << 20];
  const int in = ::open(from, O_RDONLY);
  const ssize_t size = in < 0 ? -1 : ::read(in, bytes, sizeof bytes);
  if (size <= 0) return 3;
  const int out = ::open(output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (out < 0) return 73;
  return ::write(out, bytes, static_cast<size_t>(size)) == size &&
                 ::write(out, tail, tail_size) == static_cast<ssize_t>(tail_size) && ::close(out) == 0
             ? 0
             : 74;
}

int write_page(const char* output, const char* text) {
  char path[4096 + 16];
  if (::mkdir(output, 0777) != 0) return 73;
  ::snprintf(path, sizeof path, "%s/report.md", output);
  const int out = ::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (out < 0) return 73;
  const auto size = static_cast<ssize_t>(::strlen(text));
  return ::write(out, text, static_cast<size_t>(size)) == size && ::close(out) == 0 ? 0 : 74;
}

/// The text behind `"name": "` in JSON as pe-pipeline writes it, without escapes. Cut in place.
char* text_of(char* json, const char* name) {
  char* at = ::strstr(json, name);
  if (!at) return nullptr;
  at = ::strchr(at + ::strlen(name), '"');
  if (!at) return nullptr;
  char* end = ::strchr(++at, '"');
  if (!end) return nullptr;
  *end = '\0';
  return at;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && ::strcmp(argv[1], "--check") == 0) {
    for (int c = ::getchar(); c != EOF; c = ::getchar()) {
      if (c == '\n') ::puts("{\"ok\":true}");
    }
    return 0;
  }
  if (argc == 3 && ::strcmp(argv[1], "--copy") == 0) return copy_to(argv[2], argv[2], ::strlen(argv[2]));
  if (argc != 3 || ::strcmp(argv[1], "--task") != 0) return 2;
  static char json[64 << 20];  // a task may gather many
  const int fd = ::open(argv[2], O_RDONLY);
  const ssize_t size = fd < 0 ? -1 : ::read(fd, json, sizeof json - 1);
  if (size <= 0) return 3;
  json[size] = '\0';
  char* outputs = ::strstr(json, "\"outputs\"");
  if (!outputs) return 70;
  // Keys are sorted, so the key is before the outputs.
  const char* key = text_of(json, "\"key\"");
  const char* output = text_of(outputs, "\"out\"");
  if (!key || !output) return 70;
  return ::strstr(argv[0], "report") ? write_page(output, key) : copy_to(output, key, ::strlen(key));
}
