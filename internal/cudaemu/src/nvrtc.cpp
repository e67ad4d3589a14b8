// libnvrtc.so.12 on a CPU: g++ compiles device.h and the source to a shared object,
// the machine code. CUDAEMU_HOME is the folder of device.h; compiled sources are
// kept in its folder cache.
#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

struct Program {
    std::string source, log, code;
};

enum { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

static std::string home() {
    Dl_info info;
    if (!dladdr((void*)home, &info)) return ".";
    std::string path = info.dli_fname;
    return path.substr(0, path.rfind('/'));
}

static std::string read(const std::string& path) {
    std::ifstream f(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(f), std::istreambuf_iterator<char>());
}

// shell runs a command and returns whether it succeeded; log receives its output.
static bool shell(const std::string& command, std::string* log) {
    FILE* p = popen((command + " 2>&1").c_str(), "r");
    if (!p) return false;
    char line[1024];
    while (fgets(line, sizeof line, p)) *log += line;
    return pclose(p) == 0;
}

// trampolines appends a description of each kernel; its name follows the marker of
// KERNEL.
static std::string trampolines(const std::string& text) {
    const std::string mark = "__cudaemu_kernel__(";
    std::ostringstream out;
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
        at += mark.size();
        size_t from = at;
        for (int depth = 1; depth > 0 && at < text.size(); at++) depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
        std::string limit = text.substr(from, at - 1 - from);
        size_t open = text.find('(', at);
        if (open == std::string::npos) break;
        size_t end = text.find_last_not_of(" \t\r\n", open - 1) + 1, start = end;
        while (start > at && (isalnum((unsigned char)text[start - 1]) || text[start - 1] == '_')) start--;
        std::string name = text.substr(start, end - start);
        out << "static void cudaemu_call_" << name << "(void** p) { cudaemuCall(" << name << ", p); }\n"
            << "static constexpr auto cudaemu_sizes_" << name << " = decltype(cudaemuSizes(" << name << ")){};\n"
            << "extern \"C\" { CudaemuKernel cudaemu_kernel_" << name << " = {cudaemu_call_" << name << ", (" << limit << "), "
            << "CUDAEMU_CLUSTER, cudaemu_sizes_" << name << ".count, decltype(cudaemu_sizes_" << name << ")::sizes}; }\n";
    }
    return out.str();
}

static bool compile(Program& p, const std::string& options) {
    std::string h = home(), all = p.source + "\n" + options + read(h + "/device.h") + read(h + "/runtime.h");
    unsigned long long hash = 14695981039346656037ull;
    for (unsigned char c : all) hash = (hash ^ c) * 1099511628211ull;
    char name[64];
    snprintf(name, sizeof name, "%016llx-%zu", hash, all.size());
    std::string cache = h + "/cache", kept = cache + "/" + name + ".so";
    mkdir(cache.c_str(), 0777);
    p.code = read(kept);
    if (!p.code.empty()) return true;

    std::string folder = cache + "/XXXXXX";
    if (!mkdtemp(&folder[0])) {
        p.log = "no temporary folder";
        return false;
    }
    std::string source = folder + "/source.cpp", text = folder + "/text.cpp", object = folder + "/object.so";
    std::ofstream(source) << "#line 1 \"kernel.cu\"\n" << p.source << "\n#ifndef GRU_CLUSTER\n#define GRU_CLUSTER 1\n#endif\n"
                          << "static const int CUDAEMU_CLUSTER = GRU_CLUSTER;\n";
    bool ok = shell("g++ -std=c++17 -E -x c++ " + options + " -I'" + h + "' -include '" + h + "/device.h' '" + source + "' -o '" + text + "'", &p.log);
    if (ok) {
        std::string more = trampolines(read(text));
        std::ofstream(text, std::ios::app) << more;
        ok = shell("g++ -std=c++17 -O1 -w -fPIC -shared -ffp-contract=off -fsanitize=alignment -fsanitize-undefined-trap-on-error -x c++ -D'__cudaemu_kernel__(x)=' '" + text + "' -o '" + object + "'", &p.log);
    }
    if (ok) {
        p.code = read(object);
        rename(object.c_str(), kept.c_str());
    }
    unlink(source.c_str());
    unlink(text.c_str());
    unlink(object.c_str());
    rmdir(folder.c_str());
    return ok;
}

extern "C" {
int cudaemuCompiler() { return 1; } // distinguishes this library from NVIDIA's
int nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 4, SUCCESS; }
int nvrtcGetNumSupportedArchs(int* n) { return *n = 6, SUCCESS; }
int nvrtcGetSupportedArchs(int* list) {
    const int known[] = {70, 75, 80, 86, 89, 90};
    memcpy(list, known, sizeof known);
    return SUCCESS;
}
const char* nvrtcGetErrorString(int r) {
    switch (r) {
    case SUCCESS: return "NVRTC_SUCCESS";
    case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case COMPILATION: return "NVRTC_ERROR_COMPILATION";
    }
    return "NVRTC_ERROR unknown";
}
int nvrtcCreateProgram(Program** p, const char* source, const char*, int headers, const char* const*, const char* const*) {
    if (!p || !source || headers) return INVALID_INPUT;
    *p = new Program{source, "", ""};
    return SUCCESS;
}
int nvrtcDestroyProgram(Program** p) {
    delete *p;
    *p = nullptr;
    return SUCCESS;
}
// Macros are passed to g++; NVRTC's other options are ignored.
int nvrtcCompileProgram(Program* p, int n, const char* const* options) {
    std::string pass;
    for (int i = 0; i < n; i++) {
        std::string o = options[i];
        if (o.compare(0, 2, "-D") == 0)
            pass += " '" + o + "'";
        else if (o.compare(0, 15, "--define-macro=") == 0)
            pass += " '-D" + o.substr(15) + "'";
        else if (o.compare(0, 1, "-") != 0)
            return INVALID_OPTION;
    }
    return compile(*p, pass) ? SUCCESS : COMPILATION;
}
int nvrtcGetProgramLogSize(Program* p, size_t* n) { return *n = p->log.size() + 1, SUCCESS; }
int nvrtcGetProgramLog(Program* p, char* to) { return memcpy(to, p->log.c_str(), p->log.size() + 1), SUCCESS; }
int nvrtcGetCUBINSize(Program* p, size_t* n) { return *n = p->code.size(), SUCCESS; }
int nvrtcGetCUBIN(Program* p, char* to) { return memcpy(to, p->code.data(), p->code.size()), SUCCESS; }
int nvrtcGetPTXSize(Program* p, size_t* n) { return *n = p->code.size(), SUCCESS; }
int nvrtcGetPTX(Program* p, char* to) { return memcpy(to, p->code.data(), p->code.size()), SUCCESS; }
}
