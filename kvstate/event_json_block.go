package kvstate

func (r *eventReader) block(s *StoreData) error {
	var block Block
	var mm []MMObject
	var seen fields
	err := readObject(r.dec, func(name []byte) (err error) {
		switch string(name) {
		case "block_hash":
			seen |= 1
			block.External, err = r.hash()
		case "tokens_hash":
			seen |= 2
			block.Local, err = r.hash()
		case "mm_extra_info":
			if r.dec.PeekKind() == 'n' {
				return r.dec.SkipValue()
			}
			mm, err = r.mm()
		default:
			err = r.dec.SkipValue()
		}
		return err
	})
	if err != nil {
		return err
	}
	s.add(block, mm)
	return seen.require("block_hash", "tokens_hash")
}

// add appends a block and its multimodal objects, nil if it has no such field.
func (s *StoreData) add(block Block, mm []MMObject) {
	if mm != nil && s.MM == nil {
		s.MM = make([][]MMObject, len(s.Blocks), cap(s.Blocks))
	}
	s.Blocks = append(s.Blocks, block)
	if s.MM != nil {
		s.MM = append(s.MM, mm)
	}
}

func (r *eventReader) mm() ([]MMObject, error) {
	objects := []MMObject{}
	var seen fields
	err := readObject(r.dec, func(name []byte) error {
		if string(name) != "mm_objects" {
			return r.dec.SkipValue()
		}
		seen |= 1
		return readArray(r.dec, func() error {
			objects = append(objects, MMObject{})
			return r.mmObject(&objects[len(objects)-1])
		})
	})
	if err != nil {
		return nil, err
	}
	return objects, seen.require("mm_objects")
}

func (r *eventReader) mmObject(o *MMObject) error {
	var seen fields
	err := readObject(r.dec, func(name []byte) (err error) {
		switch string(name) {
		case "mm_hash":
			seen |= 1
			o.Hash, err = r.hash()
			return err
		case "offsets":
			seen |= 2
			return readArray(r.dec, func() error {
				o.Offsets = append(o.Offsets, [2]uint64{})
				return r.numbers(o.Offsets[len(o.Offsets)-1][:])
			})
		}
		return r.dec.SkipValue()
	})
	if err != nil {
		return err
	}
	return seen.require("mm_hash", "offsets")
}
