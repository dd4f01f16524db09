package kvstate

// Tier is where a block is stored. The zero value is Device.
type Tier uint8

const (
	// Device is the accelerator's own memory.
	Device Tier = iota
	// HostPinned is the host's memory.
	HostPinned
	// Disk is storage of the same machine.
	Disk
	// External is storage elsewhere.
	External
)

// String returns the wire name: device, host_pinned, disk or external.
func (t Tier) String() string { return enumString(tiers, t) }

// MarshalText writes the wire name; an unknown value is an error.
func (t Tier) MarshalText() ([]byte, error) { return enumText(tiers, t) }

// UnmarshalText reads the wire name; an unknown one is an error.
func (t *Tier) UnmarshalText(b []byte) error { return enumParse(tiers, b, t) }

// TierOfMedium returns the tier of an engine's medium name. An unknown name has
// none; what a missing name means is the caller's to say.
func TierOfMedium(medium string) (Tier, bool) {
	switch medium {
	case "GPU", "DEVICE":
		return Device, true
	case "CPU", "CPU_PINNED", "CPU_TIER1":
		return HostPinned, true
	case "CPU_TIER2", "DISK", "NVME", "STORAGE":
		return Disk, true
	case "EXTERNAL", "NETWORK", "REMOTE", "SHARED":
		return External, true
	}
	return 0, false
}

// Medium returns the medium name to publish for t: "" (omit it) for Device, then
// CPU_PINNED, DISK and EXTERNAL.
func (t Tier) Medium() string {
	switch t {
	case HostPinned:
		return "CPU_PINNED"
	case Disk:
		return "DISK"
	case External:
		return "EXTERNAL"
	}
	return ""
}

// Domain is whose lifetime a block's residency follows; it is independent of the
// tier. The zero value is WorkerDomain.
type Domain uint8

const (
	// WorkerDomain ends with the worker's attachment.
	WorkerDomain Domain = iota
	// CacheOwnerDomain survives the attachment.
	CacheOwnerDomain
)

// String returns the wire name: worker or cache_owner.
func (d Domain) String() string { return enumString(domains, d) }

// MarshalText writes the wire name; an unknown value is an error.
func (d Domain) MarshalText() ([]byte, error) { return enumText(domains, d) }

// UnmarshalText reads the wire name; an unknown one is an error.
func (d *Domain) UnmarshalText(b []byte) error { return enumParse(domains, b, d) }
