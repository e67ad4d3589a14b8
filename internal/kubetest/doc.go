// Package kubetest checks the manifests that grpo writes against the types of the Kubernetes API. It
// is a module of its own, so that grpo does not depend on them.
package kubetest
