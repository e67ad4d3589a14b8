package kube

// The parts of the Kubernetes API that a manifest has, with the API's names. A test of another
// module compares them with the API's own types.

type metadata struct {
	Name      string            `yaml:"name,omitempty"`
	Namespace string            `yaml:"namespace,omitempty"`
	Labels    map[string]string `yaml:"labels,omitempty"`
}

type configMap struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   metadata          `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
	BinaryData map[string]string `yaml:"binaryData"` // base64
}

type job struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       jobSpec  `yaml:"spec"`
}

type jobSpec struct {
	CompletionMode       string      `yaml:"completionMode"`
	Completions          int         `yaml:"completions"`
	Parallelism          int         `yaml:"parallelism"`
	BackoffLimitPerIndex int         `yaml:"backoffLimitPerIndex"`
	MaxFailedIndexes     int         `yaml:"maxFailedIndexes"`
	PodReplacementPolicy string      `yaml:"podReplacementPolicy"`
	PodFailurePolicy     rules       `yaml:"podFailurePolicy"`
	Template             podTemplate `yaml:"template"`
}

// rules are under the key "rules".
type rules map[string][]failureRule

type failureRule struct {
	Action          string         `yaml:"action"`
	OnExitCodes     *exitCodes     `yaml:"onExitCodes,omitempty"`
	OnPodConditions []podCondition `yaml:"onPodConditions,omitempty"`
}

type exitCodes struct {
	ContainerName string `yaml:"containerName"`
	Operator      string `yaml:"operator"`
	Values        []int  `yaml:"values,flow"`
}

type podCondition struct {
	Type   string `yaml:"type"`
	Status string `yaml:"status"`
}

type podTemplate struct {
	Metadata metadata `yaml:"metadata"`
	Spec     podSpec  `yaml:"spec"`
}

type podSpec struct {
	RestartPolicy                 string      `yaml:"restartPolicy"`
	TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
	AutomountServiceAccountToken  bool        `yaml:"automountServiceAccountToken"`
	SecurityContext               podSecurity `yaml:"securityContext"`
	Containers                    []container `yaml:"containers"`
	Volumes                       []volume    `yaml:"volumes"`
}

type podSecurity struct {
	RunAsNonRoot        bool              `yaml:"runAsNonRoot"`
	RunAsUser           int               `yaml:"runAsUser"`
	RunAsGroup          int               `yaml:"runAsGroup"`
	FSGroup             int               `yaml:"fsGroup"`
	FSGroupChangePolicy string            `yaml:"fsGroupChangePolicy"`
	SeccompProfile      map[string]string `yaml:"seccompProfile"`
}

type container struct {
	Name            string             `yaml:"name"`
	Image           string             `yaml:"image"`
	Command         []string           `yaml:"command"`
	Args            []string           `yaml:"args,omitempty"`
	WorkingDir      string             `yaml:"workingDir,omitempty"`
	Env             []variable         `yaml:"env,omitempty"`
	Resources       resources          `yaml:"resources"`
	SecurityContext *containerSecurity `yaml:"securityContext"`
	VolumeMounts    []mount            `yaml:"volumeMounts"`
}

type variable struct {
	Name  string                       `yaml:"name"`
	Value string                       `yaml:"value,omitempty"`
	From  map[string]map[string]string `yaml:"valueFrom,omitempty"`
}

type resources struct {
	Requests map[string]string `yaml:"requests"`
	Limits   map[string]string `yaml:"limits"`
}

type containerSecurity struct {
	AllowPrivilegeEscalation bool         `yaml:"allowPrivilegeEscalation"`
	Capabilities             capabilities `yaml:"capabilities"`
}

type capabilities struct {
	Drop []string `yaml:"drop,flow"`
}

type mount struct {
	Name      string `yaml:"name"`
	MountPath string `yaml:"mountPath"`
	ReadOnly  bool   `yaml:"readOnly,omitempty"`
}

type volume struct {
	Name      string            `yaml:"name"`
	Claim     map[string]string `yaml:"persistentVolumeClaim,omitempty"`
	ConfigMap map[string]string `yaml:"configMap,omitempty"`
}
