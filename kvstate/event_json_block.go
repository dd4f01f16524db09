package kvstate

func (r *eventReader) block(s *StoreData) error {
	if err := r.hashes.take(); err != nil {
		return err
	}
	var block Block
	var mm []MMObject
	err := r.object([]string{"block_hash", "tokens_hash", "mm_extra_info"}, 2, func(name string) (err error) {
		switch name {
		case "block_hash":
			block.External, err = r.hash()
		case "tokens_hash":
			block.Local, err = r.hash()
		case "mm_extra_info":
			if r.dec.PeekKind() == 'n' {
				return r.dec.SkipValue()
			}
			mm, err = r.mm()
		}
		return err
	})
	s.add(block, mm)
	return err
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
	err := r.object([]string{"mm_objects"}, 1, func(string) error {
		return readArray(r.dec, func() error {
			if err := r.hashes.take(); err != nil {
				return err
			}
			objects = append(objects, MMObject{})
			return r.mmObject(&objects[len(objects)-1])
		})
	})
	return objects, err
}

func (r *eventReader) mmObject(o *MMObject) error {
	return r.object([]string{"mm_hash", "offsets"}, 2, func(name string) (err error) {
		if name == "mm_hash" {
			o.Hash, err = r.hash()
			return err
		}
		return readArray(r.dec, func() error {
			if err := r.hashes.take(); err != nil {
				return err
			}
			o.Offsets = append(o.Offsets, [2]uint64{})
			return r.numbers(o.Offsets[len(o.Offsets)-1][:])
		})
	})
}
