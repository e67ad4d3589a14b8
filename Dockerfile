# An image with one static binary and nothing else, for grpo sweep --launcher kubernetes:
#
#   docker build -t REGISTRY/grpo:VERSION .
#
# For NVIDIA GPUs: the binary loads the C library and CUDA's libraries when it starts, so it needs a
# base image that has them.
#
#   docker build --build-arg TAGS=withcuda --build-arg BASE=nvidia/cuda:12.6.3-runtime-ubuntu24.04 -t ...
ARG BASE=scratch

FROM golang:1.26 AS build
ARG TAGS=
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -tags "$TAGS" -ldflags "-s -w" -o /grpo .

FROM $BASE
COPY --from=build /grpo /usr/local/bin/grpo
# The number and not a name: scratch has no /etc/passwd, and Kubernetes compares it with 0.
USER 65532:65532
# For the kernels compiled for a GPU.
ENV GRPO_CUDA_CACHE=/tmp/grpo NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENTRYPOINT ["/usr/local/bin/grpo"]
