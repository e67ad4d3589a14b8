// The threads of a block as fibres, each with its stack, on one thread of the
// operating system.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace fibre {

const size_t stackBytes = 128 << 10;

#if defined(__x86_64__)
// A context is a stack pointer; the registers that a call preserves are on the
// stack.
struct Context {
    void* sp;
};
extern "C" void cudaemuSwitch(void** from, void* to);
asm(R"(
.text
.type cudaemuSwitch,@function
cudaemuSwitch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cudaemuSwitch,.-cudaemuSwitch
)");
inline void prepare(Context& c, char* stack, void (*body)()) {
    void** top = (void**)(stack + stackBytes);
    *--top = nullptr; // what body would return to; its stack is aligned as after a call
    *--top = (void*)body;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    c.sp = top;
}
inline void change(Context& from, Context& to) { cudaemuSwitch(&from.sp, to.sp); }
#else
struct Context {
    ucontext_t c;
};
inline void prepare(Context& c, char* stack, void (*body)()) {
    getcontext(&c.c);
    c.c.uc_stack.ss_sp = stack;
    c.c.uc_stack.ss_size = stackBytes;
    c.c.uc_link = nullptr;
    makecontext(&c.c, body, 0);
}
inline void change(Context& from, Context& to) { swapcontext(&from.c, &to.c); }
#endif

// Stacks reuses stacks; pages that no fibre touches take no memory.
struct Stacks {
    char* base = nullptr;
    size_t count = 0;
    char* at(size_t i) { return base + i * stackBytes; }
    void reserve(size_t n) {
        if (n <= count) return;
        if (base) munmap(base, count * stackBytes);
        base = (char*)mmap(nullptr, n * stackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) abort();
        count = n;
    }
};

} // namespace fibre
