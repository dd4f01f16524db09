package kvstate

// TransportKind is how an instance is reached. The zero value is none.
type TransportKind uint8

const (
	// NATSTCP is Dynamo's request plane over NATS; not spoken here yet.
	NATSTCP TransportKind = iota + 1
	// HTTP is a URL.
	HTTP
	// TCP is Dynamo's own request plane; not spoken here yet.
	TCP
)

// String returns the wire name: nats_tcp, http or tcp.
func (k TransportKind) String() string { return enumString(transportKinds, k) }

// Transport is how and where an instance is reached. On the wire it is an object
// with one key: {"http":"http://10.0.0.7:8080/control"}.
type Transport struct {
	Kind    TransportKind
	Address string
}

// Instance is one reachable endpoint of one process. Comparable with ==. On the
// wire:
//
//	{"component":"worker","endpoint":"state-agent","namespace":"ns",
//	 "instance_id":17,"transport":{"tcp":"tcp://127.0.0.1:1234"}}
type Instance struct {
	Component         string    `json:"component"`
	Endpoint          string    `json:"endpoint"`
	Namespace         string    `json:"namespace"`
	InstanceID        uint64    `json:"instance_id"`
	Transport         Transport `json:"transport"`
	DeviceType        string    `json:"device_type,omitzero"`         // "" is absent
	RequestPlaneCodec string    `json:"request_plane_codec,omitzero"` // "" is absent
}

// EndpointID names a serving endpoint. On the wire it is an object; the forms
// "ns.component.name" and "ns/component/name" are read too. Comparable with ==.
type EndpointID struct {
	Namespace string `json:"namespace"`
	Component string `json:"component"`
	Name      string `json:"name"`
}

// String returns "namespace/component/name".
func (id EndpointID) String() string { return id.Namespace + "/" + id.Component + "/" + id.Name }
