# stax for OpenTelemetry. Every target works from a fresh clone with Go, make and git; `make e2e` also wants gcc (race detector).
GO      ?= go
MODULES := . sdk metal
TOOL     = $(GO) tool -modfile=$(CURDIR)/tools/go.mod
BIN     := $(CURDIR)/bin
PREFIX  ?= $(HOME)/.local
each     = @for m in $(MODULES); do echo "== $$m: $(1)"; (cd $$m && $(1)) || exit 1; done

export CGO_ENABLED ?= 0

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: check build test race vet lint fmt fmt-check generate generate-check tidy bench e2e demo collector install clean fuzz
check: fmt-check vet test ## what CI runs first: formatting, vet, tests
build: ## build stax and the corpus target into bin/
	$(GO) build -o $(BIN)/stax ./cmd/stax
	$(GO) build -o $(BIN)/corpus ./testbed/targets/corpus
test: ## unit and golden tests of every module, short form
	$(call each,$(GO) test -short ./...)
race: export CGO_ENABLED = 1
race: ## the same under the race detector (needs gcc)
	$(call each,$(GO) test -short -race ./...)
vet:
	$(call each,$(GO) vet ./...)
	@cd metal && GOOS=darwin GOARCH=arm64 $(GO) vet ./...
lint: ## golangci-lint (the first run builds it: minutes)
	$(call each,$(TOOL) golangci-lint run ./...)
fmt: ## gofumpt and goimports
	$(call each,$(TOOL) golangci-lint fmt)
fmt-check:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "not gofmt'ed:"; echo "$$out"; exit 1; }
generate: ## semantic conventions, mdatagen components, CLI reference
	$(call each,$(GO) generate ./...)
generate-check: generate ## generate, then fail when git sees a difference
	@git diff --exit-code --stat -- . || { echo "generated files are stale: commit what 'make generate' wrote"; exit 1; }
tidy:
	@for m in $(MODULES) tools testbed/bench testbed/realprograms; do (cd $$m && $(GO) mod tidy) || exit 1; done
bench: ## load test beside otlpreceiver -> fileexporter, one table
	cd testbed/bench && $(GO) run ./cmd/loadtest
e2e: ## real binaries, real processes: record, kill, attach, full disk ...
	$(GO) test -count=1 -timeout 20m ./testbed/...
demo: build ## record the corpus through the real pipeline and print its answers
	@sh testbed/demo.sh $(BIN)
collector: ## build/otelcol-stax from builder-config.yaml with ocb
	@mkdir -p build
	$(TOOL) builder --config builder-config.yaml
install: ## install stax into PREFIX/bin (default ~/.local)
	@mkdir -p $(PREFIX)/bin
	$(GO) build -ldflags='-s -w' -o $(PREFIX)/bin/stax ./cmd/stax
	@echo "installed $(PREFIX)/bin/stax"
fuzz: ## every fuzz target for 30 s
	@sh testbed/fuzz.sh
clean:
	rm -rf bin build
