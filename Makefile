# The project's tasks. All targets except those of cuda-check need only Go. cgo is used only by the
# race detector.

GO ?= go
export CGO_ENABLED ?= 0

# Packages in which goroutines share memory: the worker pool and what runs on it,
# and the launcher of a sweep's processes.
CONCURRENT = ./pkg/model/tinylm ./pkg/model/kernel ./pkg/train ./pkg/rundir ./pkg/sweep ./pkg/sweepdir ./pkg/reward

.PHONY: all aa arm64-test build cuda cuda-test cuda-check cuda-check-build cuda-check-carry test kube-test nfs-test page-test slurm-test vet lint base smoke bench fuzz mutants faults release clean

all: build

build: ## the binary ./grpo
	$(GO) build -trimpath -o grpo .

cuda: ## the binary ./grpo with support for NVIDIA GPUs; building it needs no CUDA
	$(GO) build -trimpath -tags withcuda -o grpo .

# The tests of the GPU code use an emulator, which needs g++, and a GPU if there is one.
cuda-test: ## vet and test the code with the tag withcuda
	$(GO) vet -tags withcuda ./...
	GOARCH=arm64 $(GO) vet -tags withcuda ./...
	$(GO) test -tags withcuda ./pkg/model/cuda/... ./internal/cudaemu ./internal/cudalib
	$(GO) test -tags withcuda -run 'GPU|OnTheCard' ./pkg/train

# The measurements of docs/gpu.md need a GPU and Python with PyTorch. The programs may be built
# elsewhere and carried: copy the folder, then run on the machine with the GPU, part by part (each
# takes a few minutes),
#   .cuda-check/cudacheck -part golden
# and bring .cuda-check/out back for
#   .cuda-check/cudacheck -write docs/gpu.md
CHECK = .cuda-check
cuda-check: cuda-check-build ## run all checks on the GPU and write the tables of docs/gpu.md
	$(CHECK)/cudacheck -part all; code=$$?; $(CHECK)/cudacheck -write docs/gpu.md && exit $$code

cuda-check-build: ## the programs of cuda-check, with the reference data, in .cuda-check
	mkdir -p $(CHECK)/tree $(CHECK)/shared/golden
	$(GO) build -trimpath -tags withcuda -ldflags "-s -w" -o $(CHECK)/grpo .
	$(GO) build -trimpath -ldflags "-s -w" -o $(CHECK)/cudacheck ./internal/cudacheck
	$(GO) test -c -trimpath -tags withcuda -ldflags "-s -w" -o $(CHECK)/gpu.test ./pkg/model/cuda/gpu
	$(GO) test -c -trimpath -tags withcuda -ldflags "-s -w" -o $(CHECK)/train.test ./pkg/train
	$(GO) test -c -trimpath -tags withcuda -ldflags "-s -w" -o $(CHECK)/kernels.test ./pkg/model/cuda/kernels
	cp bench/torch_gpu_step.py bench/torch_gpu_decoder.py $(CHECK)/
	cp go.mod $(CHECK)/tree/go.mod
	@if test -d ../shared/golden; then \
		cp ../shared/golden/tinylm_torch.json $(CHECK)/shared/golden/; \
		rm -rf $(CHECK)/shared/golden/decoder; cp -r ../shared/golden/decoder $(CHECK)/shared/golden/; \
		chmod -R u+w $(CHECK)/shared; \
	else echo "../shared/golden is not here: the golden tests will be skipped"; fi

cuda-check-carry: cuda-check-build ## the same in one file to carry, .cuda-check/carry/cuda-check.tar.xz (20 MB; unpack with python3 -m tarfile -e)
	mkdir -p $(CHECK)/carry
	tar -C $(CHECK) --exclude=./carry --exclude=./out -cf - . | xz -9 -T1 > $(CHECK)/carry/cuda-check.tar.xz

# The compilers, the tests and their processes are short: the garbage collector may run less often,
# but a process that grows to gigabytes costs more in the kernel than its collector saves.
test: export GOGC ?= 400
test: export GOMEMLIMIT ?= 1GiB
# The tests write many small files: in memory they take a tenth less time.
test: export TMPDIR ?= $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8e6 { print $$6 }')
# Two packages for each core: some tests wait for processes.
test: PACKAGES = $$((2 * $$(getconf _NPROCESSORS_ONLN)))
test: ## all tests; with -race for concurrent code if there is a C compiler
	$(GO) test -vet=off -p $(PACKAGES) ./...
	@test -d ../shared/golden || echo "skipped: the golden tests that need ../shared, which is not here (in CI they fail)"
	@if command -v $${CC:-gcc} >/dev/null 2>&1; then \
		echo "CGO_ENABLED=1 $(GO) test -race -short $(CONCURRENT)"; \
		CGO_ENABLED=1 $(GO) test -race -short -vet=off -p $(PACKAGES) $(CONCURRENT); \
	else \
		echo "race detector skipped: it needs a C compiler"; \
	fi

kube-test: ## Kubernetes manifests against the API's types; a module of its own with its own dependencies
	cd internal/kubetest && $(GO) vet . && $(GO) test -count=1 .

vet:
	$(GO) vet ./...

lint: ## format, and vet for every platform
	@out=$$(gofmt -l .) && test -z "$$out" || { echo "$$out"; echo "gofmt would change these files, or failed"; exit 1; }
	GOOS=linux GOARCH=amd64 $(GO) vet ./...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	$(GO) mod verify

base: build ## rebuild the embedded base model and compare it bit for bit
	rm -rf results/base-build
	./grpo sft -c base --out results/base-build
	cp results/base-build/record.json pkg/model/tinylm/base/record.json
	cp results/base-build/model.safetensors pkg/model/tinylm/base/model.safetensors
	$(GO) test -run TestEmbedded ./pkg/model/tinylm/base
	@if git diff --quiet -- pkg/model/tinylm/base; then echo "the embedded base model is unchanged, bit for bit"; \
	else echo "the embedded base model has changed: see git diff pkg/model/tinylm/base"; fi

smoke: build ## the main job on a tiny configuration, in a few seconds
	rm -rf results/smoke
	./grpo train -c smoke --out results/smoke

bench: ## benchmark of the matmuls; grpo bench measures the other kernels and a step
	$(GO) test -run '^$$' -bench . -benchmem ./pkg/model/kernel

FUZZTIME ?= 30s
FUZZ ?= .
fuzz: ## every fuzz target that matches FUZZ in turn, for FUZZTIME (30s, or a count: 100000x)
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' . | sed 's,/[^/]*:func , ,' | grep -E '$(FUZZ)' | \
	while read -r package target; do \
		echo "$$package $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$package" || exit 1; \
	done

# Each fault (a sign, a mask, a divisor, a bound) must fail a test of pkg/rl.
mutants: ## put bugs into the math, one at a time, and check that the tests catch each (2 minutes)
	$(GO) test ./pkg/rl -run Mutants -timeout 30m -args -mutants

aa: ## simulate the method of verdicts in worlds whose truth is known, 16,000 sweeps of each (3 minutes)
	$(GO) test ./pkg/stats ./pkg/report -run 'Worlds|AA' -v -timeout 60m -args -simulations 16000

KILLS ?= 200
faults: ## break real runs in every known way; KILLS=10 is the short version
	$(GO) test ./internal/faulttest -run Faults -v -count=1 -timeout 0 -kills $(KILLS)

nfs-test: ## sweeps of two machines on a real NFS export; Debian and root, installs what it needs (15 minutes)
	internal/nfstest/nfs-test kill

page-test: ## reports and status pages in headless Chromium with axe-core; needs the network, installs what it needs on Debian (4 minutes)
	internal/pagetest/page-test results/assignment/report.html results/audit/tinylm/audit.html

ARM64TEST ?=
arm64-test: ## the program for arm64 under qemu, its bits compared with this machine's; Debian, installs qemu; ARM64TEST=short takes 2 minutes
	internal/arm64test/arm64-test $(ARM64TEST)

slurm-test: ## a sweep on a real Slurm of one node; Debian and root, installs what it needs (4 minutes)
	internal/slurmtest/slurm-test

# The same sources, version and release of Go give the same bytes.
release: ## archives for every platform with man pages, completions and SHA256SUMS, in dist/; VERSION=, PLATFORMS=
	rm -rf dist
	internal/release/release dist "$(VERSION)" $(subst $(comma), ,$(PLATFORMS))

comma := ,

clean:
	rm -rf grpo results/smoke results/base-build $(CHECK) dist
