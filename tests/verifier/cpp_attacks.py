"""Attacks in C++: what `attacks.py` does in Python, and what only a native program can try.

`ALL` is what the tests iterate, `COMPILER` are attacks on the compiler.
"""

from __future__ import annotations

import os

from maxatk.records import Outcome, TestCase
from maxatk.verifier.inside import seccomp
from verifier.attacks import HELD, NO_PASS, PASS, QUESTION, Attack

HEADERS = """\
#include <alloca.h>
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <thread>
#include <new>
"""


def body(text: str) -> str:
    """Return a program whose main has this body."""
    return f"{HEADERS}int main() {{\n{text}\n}}\n"


def native(
    program: str,
    must: frozenset[Outcome] = NO_PASS,
    tests: tuple[TestCase, ...] = (QUESTION, QUESTION),
) -> Attack:
    """Return an attack whose program is in C++."""
    return Attack(program, must, tests, language="cpp")


# Programs that know no answer and claim one.
FAKE_PASSES = {
    "return": body("return 0;"),
    "exit": body("exit(0);"),
    "exit without flush": body('printf("42-expected-output\\n"); _exit(0);'),
    "exit by the kernel": body("syscall(SYS_exit_group, 0);"),
    "exit of one thread": body("syscall(SYS_exit, 0);"),
    "end of the main thread": body("pthread_exit(nullptr);"),
    "quick exit": body("quick_exit(0);"),
    "exit in a constructor": HEADERS + "struct T { T() { exit(0); } } t; int main() {}",
    "exit in a destructor": HEADERS + "struct T { ~T() { _exit(0); } } t; int main() {}",
    "exit in an attribute": HEADERS
    + "__attribute__((constructor)) void f() { _exit(0); } int main() {}",
    "exit in a resolver": HEADERS
    + 'extern "C" { void g() {} void (*r())() { _exit(0); return g; }'
    + ' void f() __attribute__((ifunc("r"))); } int main() { f(); }',
    "exit at exit": body("atexit([] { _exit(0); });"),
    "exit in a handler": body(
        "signal(SIGSEGV, [](int) { _exit(0); }); *(volatile int *)nullptr = 1;"
    ),
    "exit by a timer": body(
        "signal(SIGALRM, [](int) { _exit(0); });"
        "itimerval t = {{0, 0}, {0, 10000}}; setitimer(ITIMER_REAL, &t, nullptr); pause();"
    ),
    "exit in a thread": body("std::thread([] { _exit(0); }).join();"),
    "throw": body("throw 1;"),
    "throw in a constructor": HEADERS + "struct T { T() { throw 1; } } t; int main() {}",
    "abort": body("abort();"),
    "jump": body("static jmp_buf b; if (setjmp(b)) return 0; longjmp(b, 1);"),
    "jump to a frame that is gone": HEADERS
    + "jmp_buf b; __attribute__((noinline)) void f() { if (setjmp(b)) _exit(0); }"
    + "int main() { f(); longjmp(b, 1); }",
    "echo the question": body("char s[100]; puts(fgets(s, 100, stdin));"),
    "no main of its own": HEADERS + "extern int main();",
    "a main of data": HEADERS + 'asm(".globl main\\n.data\\nmain: .quad 0\\n.text");',
    "run Python": body(
        'auto f = (int (*)(const char *))dlsym(RTLD_DEFAULT, "PyRun_SimpleString");'
        'if (f) f("import os, sys\\nfor n, m in list(sys.modules.items()):\\n'
        " if 'maxatk' in n:\\n  for k in list(vars(m)):\\n   setattr(m, k, lambda *a, **k: 0)\\n"
        'os._exit(0)");'
    ),
    "overwrite the interpreter": HEADERS
    + """
int wipe(dl_phdr_info *info, size_t, void *) {
    if (!strstr(info->dlpi_name, "libpython") && info->dlpi_name[0]) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        auto &part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || !(part.p_flags & PF_W)) continue;
        memset((char *)info->dlpi_addr + part.p_vaddr, 0, part.p_memsz);
    }
    return 0;
}
int main() { dl_iterate_phdr(wipe, nullptr); return 0; }
""",
    "overwrite the code of the interpreter": body("""
auto f = (char *)dlsym(RTLD_DEFAULT, "PyObject_Call");
auto page = (char *)((unsigned long)f & ~4095ul);
mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
memset(f, 0xc3, 64);
return 0;
"""),
    "overwrite the stack of the interpreter": body(
        "volatile char *p = (char *)__builtin_frame_address(0);"
        "for (int i = 0; i < 1 << 20; i++) p[i] = 0;"
    ),
    "return to the interpreter": body(
        'auto f = (void (*)(int))dlsym(RTLD_DEFAULT, "_exit"); atexit([] {}); f(0);'
    ),
    "unload itself": body('void *h = dlopen("/program/program.so", RTLD_NOW); dlclose(h); '
                          "dlclose(h); dlclose(h); return 0;"),
}  # fmt: skip

SCAN = (
    HEADERS
    + """
static const char backwards[] = "tuptuo-detcepxe-24";
bool is_it(const char *text) {
    for (int i = 0; i < 18; i++)
        if (text[i] != backwards[17 - i]) return false;
    return true;
}
void look(char *from, char *to) {
    static char copy[8192];
    int file = open("copy", O_RDWR | O_CREAT, 0600);
    for (; from < to; from += 4096) {
        if (pwrite(file, from, 8192, 0) < 4096) continue;  // not there: no fault of ours
        pread(file, copy, 8192, 0);
        for (int i = 0; i < 8192 - 18; i++)
            if (is_it(copy + i)) {
                puts(copy + i);
                exit(0);
            }
    }
    close(file);
}
int part(dl_phdr_info *info, size_t, void *) {
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            char *from = (char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            from = (char *)((unsigned long)from & ~4095ul);
            look(from, from + info->dlpi_phdr[i].p_memsz);
        }
    return 0;
}
int main() {
    dl_iterate_phdr(part, nullptr);
    char *end = (char *)sbrk(0);
    look(end - (8 << 20), end);
    char *frame = (char *)((unsigned long)__builtin_frame_address(0) & ~4095ul);
    look(frame - (1 << 20), frame + (1 << 20));
}
"""
)
# Programs that look for the expected output where it might be.
LEAKS = {
    "scan all memory": SCAN,
    "read every descriptor": body(
        "static char s[4096]; for (int f = 3; f < 1024; f++) {"
        " ssize_t n = pread(f, s, sizeof s, 0); if (n > 0) write(1, s, n); }"
    ),
    "read the heap": body(
        "for (int round = 0; round < 50; round++)"
        " for (size_t size : {64, 256, 1024, 4096, 1 << 16, 1 << 20}) {"
        "  char *p = (char *)malloc(size);"
        '  for (size_t i = 0; i + 8 < size; i++) if (!memcmp(p + i, "42-expe", 7)) puts(p + i); }'
    ),
    "read the parent": body(
        "char s[100]; int p = getppid(); long pids[] = {1, 2, p, getpid() - 1};"
        'for (long pid : pids) for (const char *n : {"mem", "environ", "cmdline", "maps"}) {'
        ' sprintf(s, "/proc/%ld/%s", pid, n); FILE *f = fopen(s, "r");'
        " if (f) { while (fgets(s, 100, f)) puts(s); } }"
        "static char b[4096]; iovec a = {b, 4096}, c = {(void *)0x400000, 4096};"
        "if (process_vm_readv(p, &a, 1, &c, 1, 0) > 0) fwrite(b, 1, 4096, stdout);"
    ),
    "list files": body(
        'for (const char *n : {"/", "/tmp", "/program", "/checker", "/dev", "/root", "/home"}) {'
        ' DIR *d = opendir(n); if (d) while (dirent *e = readdir(d)) puts(e->d_name); }'
        'char s[100]; for (const char *n : {"/checker/input.txt", "/checker/correct_output.txt"}) {'
        ' FILE *f = fopen(n, "r"); if (f) while (fgets(s, 100, f)) fputs(s, stdout); }'
    ),
    "environment": body("extern char **environ; for (char **e = environ; *e; e++) puts(*e);"),
}  # fmt: skip

# Programs that work on the channel to the verifier.
FORGING = {
    "write every descriptor": body(
        "static char s[4096]; memset(s, 1, sizeof s);"
        "for (int f = 2; f < 1024; f++) { write(f, s, sizeof s); pwrite(f, s, sizeof s, 0); }"
    ),
    "close all": body("for (int f = 0; f < 1024; f++) close(f);"),
    "close by range": body("syscall(SYS_close_range, 0, ~0u, 0);"),
    "swap the standard files": body('int k = dup(1); dup2(0, 1); dup2(k, 0); puts("x");'),
    "truncate stdin": body('ftruncate(0, 0); pwrite(0, "42-expected-output", 18, 0);'),
    "move the ends of the output": body("lseek(1, 1l << 40, SEEK_SET); dup2(2, 1);"),
    "end the supervisors": body(
        "for (int p = -1; p < 64; p++) for (int s : {9, 15, 19}) kill(p, s); kill(getppid(), 9);"
        "for (int p = 1; p < 64; p++) syscall(SYS_tgkill, p, p, 9);"
    ),
    "write the object": body(
        'int f = open("/program/program.so", O_RDWR); write(f, "x", 1);'
        'unlink("/program/program.so"); rename("/program/program.so", "/tmp/x");'
        'chmod("/program/program.so", 0777); mkdir("/program/x", 0700);'
    ),
    "files of a verdict": body(
        'for (const char *n : {"results", "verdict.json", "scores.jsonl", "correct_output.txt"}) {'
        ' FILE *f = fopen(n, "w"); fputs("passed", f); fclose(f); }'
    ),
    "wait for everybody": body("for (int i = 0; i < 99; i++) syscall(SYS_wait4, -1, 0, 1, 0);"),
}

# The program has functions with names that the interpreter or the C library has.
SYMBOLS = {
    "write": "ssize_t write(int, const void *, size_t n) { return n; }",
    "exit": "void exit(int) { for (;;) ; }",
    "_exit": "void _exit(int) { for (;;) ; }",
    "malloc": "void *malloc(size_t) { return nullptr; } void free(void *) {}",
    "dlsym": "void *dlsym(void *, const char *) { return nullptr; }",
    "memcpy": "void *memcpy(void *d, const void *, size_t) { return d; }",
    "PyObject_Call": "void *PyObject_Call(void *, void *, void *) { return nullptr; }",
    "PyErr_Occurred": "void *PyErr_Occurred() { return nullptr; }",
    "ffi_call": "void ffi_call() {}",
    "_Fork": "int _Fork() { return 0; }",
    "prctl": "int prctl(int, ...) { return 0; }",
    "environ": "char **environ = nullptr;",
    "_init": "__attribute__((constructor)) void starts_first() {}",
    "__cxa_throw": "void __cxa_throw(void *, void *, void (*)(void *)) { for (;;) ; }",
}

# Each is an expression that is true where the attempt was refused.
ESCAPES = {
    "fork": "fork() < 0",
    "fork by the kernel": "syscall(SYS_fork) < 0",
    "vfork": "syscall(SYS_vfork) < 0",
    "clone": "syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) < 0",
    "clone3": "syscall(SYS_clone3, 0, 0) < 0",
    "exec": 'execl("/bin/sh", "sh", nullptr) < 0',
    "exec of the loader": 'execl("/lib64/ld-linux-x86-64.so.2", "ld", nullptr) < 0',
    "exec of itself": 'fexecve(open("/program/program.so", 0), nullptr, nullptr) < 0',
    "exec by the kernel": 'syscall(SYS_execveat, -100, "/bin/sh", 0, 0, 0) < 0',
    "system": 'system("true") != 0',
    "popen": 'popen("true", "r") == nullptr',
    "spawn": "({ char *a[] = {nullptr}; int p;"
    ' posix_spawn(&p, "/bin/true", nullptr, nullptr, a, a); }) != 0',
    "socket": "socket(AF_INET, SOCK_STREAM, 0) < 0",
    "unix socket": "socket(AF_UNIX, SOCK_STREAM, 0) < 0",
    "netlink": "socket(AF_NETLINK, SOCK_RAW, 0) < 0",
    "internet pair": "({ int s[2]; socketpair(AF_INET, SOCK_STREAM, 0, s); }) < 0",
    "kill the parent": "kill(getppid(), 9) < 0",
    "kill all": "kill(-1, 9) < 0",
    "kill the group": "kill(0, 9) < 0",
    "signal itself": "kill(getpid(), SIGTERM) < 0",
    "stop itself": "raise(SIGSTOP) != 0",
    "trace the parent": "ptrace(PTRACE_ATTACH, getppid(), 0, 0) < 0",
    "be traced": "ptrace(PTRACE_TRACEME, 0, 0, 0) < 0",
    "session": "setsid() < 0",
    "group": "setpgid(0, 0) < 0",
    "passwd": 'open("/etc/passwd", 0) < 0',
    "shadow": 'open("/etc/shadow", 0) < 0',
    "climb": 'open("/../../../etc/hostname", 0) < 0',
    "own memory": 'open("/proc/self/mem", O_RDWR) < 0',
    "own maps": 'open("/proc/self/maps", 0) < 0',
    "first process": 'open("/proc/1/cmdline", 0) < 0',
    "root": 'open("/x", O_RDWR | O_CREAT, 0600) < 0',
    "library": 'open("/usr/lib/x", O_RDWR | O_CREAT, 0600) < 0',
    "shared memory": 'open("/dev/shm/x", O_RDWR | O_CREAT, 0600) < 0',
    "object": 'open("/program/program.so", O_RDWR) < 0',
    "remove the object": 'unlink("/program/program.so") < 0',
    "device": 'mknod("d", S_IFCHR | 0600, 0x103) < 0',
    "pipe": 'mkfifo("p", 0600) < 0',
    "link": 'link("/program/program.so", "l") < 0',
    "symbolic link": 'symlink("/etc", "s") < 0',
    "root folder": 'chroot("/") < 0',
    "user": "setuid(0) < 0",
    "memory file": "memfd_create(\"x\", 0) < 0",
    "mount": 'mount("x", "/", "tmpfs", 0, nullptr) < 0',
    "unmount": 'umount2("/program", MNT_DETACH) < 0',
    "unshare": "unshare(CLONE_NEWUSER) < 0",
    "filter": "prctl(PR_SET_SECCOMP, 1, 0, 0, 0) < 0",
    "be dumped": "prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0",
    "outlive": "prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) < 0",
    "own CPU limit": "({ rlimit r = {1, 1}; setrlimit(RLIMIT_CPU, &r); }) < 0",
    "more memory": "({ rlimit r = {~0ul, ~0ul}; setrlimit(RLIMIT_AS, &r); }) < 0",
    "more processes": "({ rlimit r = {99, 99}; setrlimit(RLIMIT_NPROC, &r) < 0 || fork() < 0; })",
    "limits of another": "({ rlimit r = {1, 1}; prlimit(getppid(), RLIMIT_NOFILE, &r, 0); }) < 0",
    "owner": "fcntl(0, F_SETOWN, getppid()) < 0",
    "flags": "fcntl(1, F_SETFL, O_APPEND) < 0",
    "lock": "flock(0, LOCK_EX) < 0",
    "terminal": 'ioctl(0, TIOCSTI, "x") < 0',
    "priority": "nice(-5) < 0",
    "affinity": "({ cpu_set_t s; CPU_ZERO(&s); CPU_SET(0, &s); sched_setaffinity(0, 8, &s); }) < 0",
    "host name": 'sethostname("x", 1) < 0',
}  # fmt: skip


def refused_numbers(machine: str) -> list[int]:
    """Return the numbers of all system calls that are on no list."""
    column = list(seccomp.ARCHITECTURES).index(machine)
    listed = {row[column] for name, row in seccomp._NUMBERS.items() if name != "execve"}
    # Linux hands the calls of its own probes past every filter, and ends who calls them otherwise.
    listed |= {335, 336} if machine == "x86_64" else set()
    return [number for number in range(470) if number not in listed]


def escapes(before: str = "") -> str:
    """Return a program that makes every attempt and prints the names of those that succeeded."""
    tries = "\n".join(
        f'if (!({text})) {{ printf("%s; ", "{name}"); held = false; }}'
        for name, text in ESCAPES.items()
    )
    numbers = ", ".join(map(str, refused_numbers(os.uname().machine)))
    return body(f"""
bool held = true;
signal(SIGPIPE, SIG_IGN);
{before}
{tries}
for (int number : {{{numbers}}}) {{
    errno = 0;
    if (syscall(number, 0, 0, 0, 0, 0, 0) != -1 || (errno != EPERM && errno != ENOSYS)) {{
        printf("call %d; ", number);
        held = false;
    }}
}}
if (held) puts("held");
""")


# Instructions that enter the kernel by other ways, or that no program may use.
INSTRUCTIONS = {
    "int 0x80": "mov $20, %eax\\n int $0x80",
    "sysenter": "mov $20, %eax\\n sysenter",
    "x32": "mov $0x40000027, %eax\\n syscall",
    "in": "in $0x70, %al",
    "cli": "cli",
    "hlt": "hlt",
    "wrmsr": "wrmsr",
    "vmcall": "vmcall",
}

MEMORY = Outcome.MEMORY_LIMIT
TIME = Outcome.TIME_LIMIT
OUTPUT = Outcome.OUTPUT_LIMIT
ERROR = Outcome.RUNTIME_ERROR
RESOURCES = {
    "endless loop": (body("for (volatile int i = 0;; i++) ;"), TIME),
    "endless constructor": (
        HEADERS + "struct T { T() { for (volatile int i = 0;; i++) ; } } t; int main() {}",
        TIME,
    ),
    "endless destructor": (
        HEADERS + "struct T { ~T() { for (volatile int i = 0;; i++) ; } } t; int main() {}",
        TIME,
    ),
    "endless exit": (body("atexit([] { for (volatile int i = 0;; i++) ; });"), TIME),
    "endless handler": (
        body(
            "for (int s = 1; s < 32; s++) signal(s, [](int) { for (volatile int i = 0;; i++) ; });"
            "*(volatile int *)nullptr = 1;"
        ),
        TIME,
    ),
    "busy threads": (
        body(
            "auto f = [] { for (volatile int i = 0;; i++) ; };"
            "std::thread a(f), b(f), c(f); a.join();"
        ),
        TIME,
    ),
    "memory by new": (body("for (;;) memset(new char[1 << 20], 1, 1 << 20);"), MEMORY),
    "memory at once": (
        body("volatile long n = 1l << 40; char *volatile p = new char[n]; return p[7];"),
        MEMORY,
    ),
    "memory by malloc": (body("for (;;) memset(malloc(1 << 20), 1, 1 << 20);"), ERROR),
    "memory by mmap": (
        body(
            "for (;;) { void *p = mmap(0, 1 << 24, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);"
            " if (p == MAP_FAILED) abort(); memset(p, 1, 1 << 24); }"
        ),
        ERROR,
    ),
    "static data": (HEADERS + "int a[150000000]; int main() { a[7] = 1; return a[8]; }", MEMORY),
    "huge static data": (
        HEADERS + "int a[1 << 29], b[1 << 29]; int main() { a[7] = 1; return b[a[6]]; }",
        MEMORY,
    ),
    "huge frame": (
        HEADERS
        + "int main() { volatile long n = 1l << 32; char *p = (char *)alloca(n);"
        + " memset(p, 1, n); return p[n / 2]; }",
        ERROR,
    ),
    "endless recursion": (
        HEADERS
        + "__attribute__((noinline)) int f(volatile int *p)"
        + " { volatile int x = *p; return f(&x) + x; }"
        + "int main() { volatile int x = 1; return f(&x); }",
        ERROR,
    ),
    "flood stdout": (body("for (;;) puts(\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\");"), OUTPUT),
    "flood stderr": (
        body(
            "static char s[1 << 16]; memset(s, 'x', sizeof s);"
            "for (;;) fwrite(s, 1, sizeof s, stderr);"
        ),
        OUTPUT,
    ),
    "sparse stdout": (body("if (ftruncate(1, 1l << 40)) abort();"), ERROR),
    "descriptors": (body("while (dup(0) >= 0) ; abort();"), ERROR),
    "threads": (
        body("for (;;) std::thread([] { pause(); }).detach();"),
        ERROR,
        MEMORY,
        TIME,
    ),
    "scratch folder": (
        body(
            'FILE *f = fopen("x", "w"); static char s[1 << 20];'
            "while (fwrite(s, 1, sizeof s, f) == sizeof s) ; abort();"
        ),
        ERROR,
    ),
    "many files": (
        body(
            "char s[20]; for (int i = 0;; i++) { sprintf(s, \"%d\", i);"
            " if (open(s, O_CREAT | O_WRONLY, 0600) < 0) break; } abort();"
        ),
        ERROR,
    ),
    "null": (body("*(volatile int *)nullptr = 1;"), ERROR),
    "division": (body("volatile int x = 0; return 7 / x;"), ERROR),
    "double free": (body("char *volatile p = (char *)malloc(9); free(p); free(p);"), ERROR),
    "trap": (body("__builtin_trap();"), ERROR),
    "status": (body("return 3;"), ERROR),
}  # fmt: skip

# Each program leaves something behind and looks for it; every run must see nothing.
CROSS_TEST = {
    "static data": HEADERS + 'int n; int main() { printf("%d", n++); }',
    "its own code": HEADERS
    + """
extern "C" __attribute__((noinline)) int number() { asm volatile(""); return 0; }
int main() {
    printf("%d", number());
    fflush(stdout);
    char *page = (char *)((unsigned long)number & ~4095ul);
    mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    *(volatile char *)number = 0xc3;
}
""",
    "what was printed": body(
        "char s[9]; printf(\"%d\", pread(1, s, 9, 0) > 0 || pread(2, s, 9, 0) > 0);"
        'fflush(stdout); fputs("left", stderr);'
    ),
    "offsets": body(
        'printf("%d", lseek(0, 0, SEEK_CUR) != 0 || lseek(1, 0, SEEK_CUR) != 0); fflush(stdout);'
        "lseek(0, 99, SEEK_SET); lseek(2, 1 << 16, SEEK_SET);"
    ),
    "files": body(
        'printf("%d", access("left", F_OK) == 0); fclose(fopen("left", "w"));'
        'mkdir("folder", 0); mkdir("f", 0700); fclose(fopen("f/x", "w"));'
    ),
    "mask and limits": body(
        "rlimit r; getrlimit(RLIMIT_NOFILE, &r); printf(\"%d\", r.rlim_cur < 99);"
        "r = {50, 50}; setrlimit(RLIMIT_NOFILE, &r); umask(0777);"
    ),
    "flags": body(
        'printf("%d", (fcntl(0, F_GETFL) & O_NONBLOCK) != 0);'
        "int one = 1; ioctl(0, FIONBIO, &one); ioctl(1, FIONBIO, &one);"
    ),
    "environment": body('printf("%d", getenv("LEFT") != nullptr); setenv("LEFT", "1", 1);'),
    "interpreter": body(
        'int *p = (int *)dlsym(RTLD_DEFAULT, "Py_VerboseFlag");'
        'printf("%d", p && *p); if (p) *p = 1;'
    ),
    "signals": body(
        'printf("%d", signal(SIGTERM, SIG_IGN) == SIG_IGN); alarm(99); sigset_t s; sigfillset(&s);'
        "sigprocmask(SIG_BLOCK, &s, nullptr);"
    ),
    "threads": body('printf("0"); fflush(stdout); std::thread([] { pause(); }).detach();'),
}  # fmt: skip
ZERO = tuple(TestCase(input="", output="0") for _ in range(3))
SYMBOL_MAIN = '\nint main() { puts("held"); }\n'

ALL: dict[str, Attack] = {
    **{f"fake pass: {name}": native(program) for name, program in FAKE_PASSES.items()},
    **{f"leak: {name}": native(program) for name, program in LEAKS.items()},
    **{f"forging: {name}": native(program) for name, program in FORGING.items()},
    **{
        f"symbol: {name}": native(
            f'{HEADERS}extern "C" {{ {text} }}{SYMBOL_MAIN}', NO_PASS | PASS, (HELD,)
        )
        for name, text in SYMBOLS.items()
    },
    "escape: all": native(escapes(), PASS, (HELD,)),
    "escape: all with threads": native(escapes("std::thread([] {}).join();"), PASS, (HELD,)),
    **{
        f"instruction: {name}": native(body(f'asm volatile("{text}");'))
        for name, text in INSTRUCTIONS.items()
        if os.uname().machine == "x86_64"
    },
    **{
        f"resource: {name}": native(program, frozenset(outcomes), (QUESTION,))
        for name, (program, *outcomes) in RESOURCES.items()
    },
    **{f"cross-test: {name}": native(p, PASS, ZERO) for name, p in CROSS_TEST.items()},
}

MAIN = "int main() {}\n"
# Attacks on the compiler: none of them becomes a program, or learns anything.
COMPILER = {
    "include passwd": f'#include "/etc/passwd"\n{MAIN}',
    "include shadow": f'#include "/etc/shadow"\n{MAIN}',
    "include the home folder": f'#include "/root/.bashrc"\n{MAIN}',
    "include a file of the system": f'#include "/proc/self/environ"\n{MAIN}',
    "include zeros": f'#include "/dev/zero"\n{MAIN}',
    "include random bytes": f'#include "/dev/urandom"\n{MAIN}',
    "include the terminal": f'#include "/dev/tty"\n{MAIN}',
    "include itself": f'#include "program.cpp"\n{MAIN}',
    "binary of passwd": f'asm(".incbin \\"/etc/passwd\\"");\n{MAIN}',
    "binary of zeros": f'asm(".incbin \\"/dev/zero\\"");\n{MAIN}',
    "assembler of passwd": f'asm(".include \\"/etc/passwd\\"");\n{MAIN}',
    "fill": f'asm(".fill 4000000000, 1, 0");\n{MAIN}',
    "repetition": f'asm(".rept 2000000000\\nnop\\n.endr");\n{MAIN}',
    "initialised data": "char a[1 << 30] = {1};\n" + MAIN,
    "templates": (
        "template <int n> struct F { F<n - 1> a; F<n + (n > 0)> *b; static const int v ="
        " F<n - 1>::v + 1; };\n" + MAIN.replace("{}", "{ return F<1 << 30>::v; }")
    ),
    "template tree": (
        "template <int d, int n> struct T { static const long v = T<d - 1, 2 * n>::v +"
        " T<d - 1, 2 * n + 1>::v; };\ntemplate <int n> struct T<0, n> { static const long v = n;"
        " };\n" + MAIN.replace("{}", "{ return T<26, 0>::v & 1; }")
    ),
    "macros": (
        "#define A0 1+1\n"
        + "".join(f"#define A{n} A{n - 1}+A{n - 1}+A{n - 1}+A{n - 1}\n" for n in range(1, 16))
        + "int main() { return A15; }\n"
    ),
    "constant loop": (
        "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; i++) s ^= i; return s; }\n"
        "static_assert(f(1l << 60) == 1);\n" + MAIN
    ),
    "brackets": f"int main() {{ return {'(' * 200_000}1{')' * 200_000}; }}\n",
    "huge source": "int x;\n" + "// 123456789\n" * 90_000 + MAIN,
    "null bytes": "int main() { \0\0 return \0; }",
    "lone surrogate": "int main() { return '\ud800; }",
    "an option": '#pragma GCC optimize("-fplugin=/tmp/x.so")\n#error stop\n',
    "claim to be killed": '\n#error x\nstatic_assert(false, R"(\ng++: fatal error: Killed signal'
    ' terminated program cc1plus\n)");\n' + MAIN,
    "undefined name": "int f();\nint main() { return f(); }\n",
    "no main": "int f() { return 1; }\n",
    "no program": "I do not know.",
    "empty": "",
}
NO_PROGRAM = frozenset({Outcome.COMPILE_ERROR, Outcome.MEMORY_LIMIT})
