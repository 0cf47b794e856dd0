# The two commands of the README are `make demo` and `make test`.
# Everything that tests need and that is missing is installed by .ci/*.sh into
# a cache folder outside the checkout (AGENT_LS_DEV).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOFLAGS_BUILD := -trimpath -ldflags '-s -w -X main.version=$(VERSION)'

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

.PHONY: build
build: bin/agent-ls ## build bin/agent-ls

.PHONY: bin/agent-ls
bin/agent-ls:
	go build $(GOFLAGS_BUILD) -o $@ ./cmd/agent-ls

.PHONY: install
install: ## install agent-ls into the Go bin folder
	go install $(GOFLAGS_BUILD) ./cmd/agent-ls

.PHONY: demo
demo: ## show the main job on a made-up session, in under 20 seconds
	@go run ./cmd/agent-ls demo

.PHONY: test
test: check test-go test-vscode ## everything that CI runs

.PHONY: check
check: ## format, vet, staticcheck, cross-compilation
	.ci/check.sh

.PHONY: test-go
test-go: ## Go tests under the race detector
	go test -race -timeout 20m ./...

.PHONY: test-neovim
test-neovim: ## the Lua module in real Neovim 0.10 and newest (Debian, root)
	.ci/test-neovim.sh

.PHONY: test-vscode
test-vscode: ## the extension, in a real VS Code in a real browser
	.ci/test-vscode.sh

.PHONY: bench
bench: ## Go benchmarks
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 60s)
	.ci/fuzz.sh $(or $(FUZZTIME),60s)

.PHONY: lint
lint: ## golangci-lint, as configured in .golangci.yml
	golangci-lint run ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist artifacts
