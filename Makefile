# The project's tasks. Every target works on a machine that has Go and nothing
# else; cgo is not needed (and not used, except by the race detector).

GO ?= go
export CGO_ENABLED ?= 0

# Packages in which goroutines share memory: the worker pool and what runs on it,
# and the launcher of a sweep's processes.
CONCURRENT = ./pkg/model ./pkg/model/kernel ./pkg/train ./pkg/rundir ./pkg/sweep ./pkg/sweepdir

.PHONY: all build test race vet lint base smoke bench fuzz faults clean

all: build

build: ## the binary ./grpo
	$(GO) build -trimpath -o grpo .

test: vet ## the whole test suite; -race where there is concurrency and a C compiler
	$(GO) test ./...
	@if command -v $${CC:-gcc} >/dev/null 2>&1; then \
		echo "CGO_ENABLED=1 $(GO) test -race -short $(CONCURRENT)"; \
		CGO_ENABLED=1 $(GO) test -race -short $(CONCURRENT); \
	else \
		echo "race detector skipped: it needs a C compiler"; \
	fi

vet:
	$(GO) vet ./...

lint: ## format, and vet for every platform that the project builds on
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt would change these files"; exit 1; }
	GOOS=linux GOARCH=amd64 $(GO) vet ./...
	GOOS=linux GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	$(GO) mod verify

base: build ## make the embedded base model anew and say whether it is the same to the bit
	rm -rf results/base-build
	./grpo sft -c base --out results/base-build
	cp results/base-build/record.json pkg/model/base/record.json
	cp results/base-build/model.safetensors pkg/model/base/model.safetensors
	$(GO) test -run TestEmbedded ./pkg/model/base
	@if git diff --quiet -- pkg/model/base; then echo "the embedded base model is unchanged, bit for bit"; \
	else echo "the embedded base model has changed: see git diff pkg/model/base"; fi

smoke: build ## the main job on a tiny configuration, in a few seconds
	rm -rf results/smoke
	./grpo train -c smoke --out results/smoke

bench: ## benchmarks of the kernels and of a step
	$(GO) test -run '^$$' -bench . -benchmem ./pkg/model/...

FUZZTIME ?= 30s
fuzz: ## every fuzz target in turn, FUZZTIME each, or FUZZEXECS executions over all; with counts
	$(GO) run ./internal/fuzzall $(if $(FUZZEXECS),-execs $(FUZZEXECS),-time $(FUZZTIME)) -match '$(FUZZ)' \
		$(if $(filter 10000000,$(FUZZEXECS)),-write docs/reliability.md)

KILLS ?= 200
faults: ## break real runs in every way there is; KILLS=10 is the short version
	$(GO) run ./internal/faulttest -kills $(KILLS) $(if $(filter 200,$(KILLS)),-write docs/reliability.md)

clean:
	rm -rf grpo results/smoke results/base-build
